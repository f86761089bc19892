"""``precog chat``: a conversation that is remembered."""

import sys
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.naming import User
from precog.cli.output import err, human_seconds, out, print_json, shown
from precog.cli.streams import lines_of_input
from precog.config import expanded, resolve
from precog.engine.composed import DEFAULT_RULE, DEFAULT_TEMPERATURE, Composing
from precog.errors import InputError, PrecogError, StorageError
from precog.memory.place import new_folder
from precog.records import ModelChoice
from precog.session import Reply, Session, SessionOptions


def chat(
    user: User,
    corpus: options.Corpus = None,
    top_k: Annotated[int, typer.Option(metavar="N", help="Pieces of evidence retrieved and shown.")] = 3,
    inject: Annotated[int, typer.Option(metavar="N", help="States composed.")] = 1,
    compose: Annotated[
        str, typer.Option(metavar="mean|concat|permute|mix|replay", help="How several states become one context.")
    ] = DEFAULT_RULE,
    compose_temperature: Annotated[
        float, typer.Option(metavar="T", help="Of the softmax over scores; 1 in the paper.")
    ] = DEFAULT_TEMPERATURE,
    baseline: Annotated[float, typer.Option(metavar="L", help="Share of the session's semantic state.")] = 0.0,
    free: Annotated[bool, typer.Option("--free", help="Let the model say what it likes.")] = False,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Below it there is no answer.  \\[default: the model's own]", show_default=False
        ),
    ] = None,
    always_answer: Annotated[bool, typer.Option("--always-answer", help="Answer whatever the confidence.")] = False,
    remember: Annotated[
        str, typer.Option(metavar="statements|all|nothing", help="What of it is deposited; questions are no facts.")
    ] = "statements",
    speaker: Annotated[
        str | None, typer.Option(metavar="S", help="Who speaks.  \\[default: --user]", show_default=False)
    ] = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Talk to a memory: what is said is remembered, and answered from what was said before and from a corpus."""
    settings = resolve({"corpus": corpus, "model": model, "device": device, "threads": threads, "encoder": encoder})
    how = SessionOptions(
        top_k=top_k,
        inject=inject,
        composing=Composing(compose, compose_temperature, baseline_share=baseline),
        free=free,
        min_confidence=min_confidence,
        always_answer=always_answer,
        remember=remember,
        speaker=speaker or user,
    )
    choice = ModelChoice(settings.model, settings.device, settings.threads)
    where = None if settings.corpus is None else expanded(settings.corpus)
    folder = new_folder(settings.home, user)
    with Session(folder, model=choice, encoder=settings.encoder, corpus=where, options=how) as session:
        _converse(session, as_json)
    return 0


def _converse(session: Session, as_json: bool) -> None:
    """Utterance after utterance until the end of input; one that fails does not end it."""
    lines = lines_of_input()
    interactive = sys.stdin is not None and sys.stdin.isatty()
    if interactive:
        err.print(f"[bold]{shown(session.backbone.card.name)}[/] is ready; an empty line or Ctrl-D ends.")
    num_said = 0
    while True:
        if interactive:
            err.print("[bold cyan]>[/] ", end="")
        line = next(lines, "")
        utterance = line.strip()
        if not line or (interactive and not utterance):
            break
        if not utterance:
            continue
        num_said += 1
        try:
            reply = session.say(utterance)
        except StorageError:
            raise  # there is nowhere to remember
        except PrecogError as error:
            err.print(f"precog: {shown(' '.join(str(error).split()))}")
            if as_json:
                print_json({"utterance": utterance, "error": error.to_json()})
            continue
        if as_json:
            start = session.start.to_json() if session.start is not None and num_said == 1 else None
            print_json({"utterance": utterance, **reply.to_json(), **({"start": start} if start else {})})
        else:
            _show(utterance, reply, interactive)
    if not num_said and not interactive:
        raise InputError("there is nothing on standard input", expected="utterances, one a line")


def _show(utterance: str, reply: Reply, interactive: bool) -> None:
    if not interactive:
        out.print(f"[bold cyan]>[/] {shown(utterance)}")
    out.print(shown(reply.text))
    for entry in reply.evidence:
        if entry.memory is not None:
            info = entry.memory.deposit.info
            when = "" if info.time is None else info.time.isoformat()
            place = f"memory {entry.memory.deposit.id}, {when}"
            text = info.text
        else:
            assert entry.corpus is not None
            place, text = entry.corpus.chunk.source, entry.corpus.chunk.info.text
        used = f", weight {entry.weight:.2f}" if entry.weight else ""
        out.print(f"  [dim]{entry.score:.2f}{used}  {shown(place)}:[/] {shown(' '.join(text.split())[:100])}")
    ttft = reply.timings_sec.get("ttft")
    parts = [f"confidence {reply.confidence:.2f}", f"{reply.tokens_processed} tokens read by the model"]
    if ttft is not None:
        parts.append(f"first token after {human_seconds(ttft)}")
    out.print(f"[dim]{', '.join(parts)}[/]")
