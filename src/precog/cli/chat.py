"""``precog chat``: a conversation that is remembered."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.chat_commands import run_command, said_of
from precog.cli.conversation import converse, is_interactive
from precog.cli.main import STARTED_SEC
from precog.cli.memory.notes import tell_lines
from precog.cli.output import human_seconds, out, print_json, shown
from precog.config import expanded, resolve
from precog.engine.composed import DEFAULT_RULE, DEFAULT_TEMPERATURE, Composing
from precog.memory.place import memory_folder
from precog.records import ModelChoice
from precog.session import Reply, Session, SessionOptions
from precog.session.reply import NOTED


def chat(
    user: options.User,
    corpus: options.Corpus = None,
    top_k: Annotated[int, typer.Option(metavar="N", help="How many deposits and chunks are retrieved and shown.")] = 3,
    inject: Annotated[
        int, typer.Option(metavar="N", help="How many of them give their states to the answer, at most --top-k.")
    ] = 1,
    compose: options.Compose = DEFAULT_RULE,
    compose_temperature: options.ComposeTemperature = DEFAULT_TEMPERATURE,
    baseline: Annotated[
        float, typer.Option(metavar="L", help="Share of the session's semantic state in the answer, 0 to 1.")
    ] = 0.0,
    free: options.Free = False,
    min_confidence: options.MinConfidence = None,
    always_answer: options.AlwaysAnswer = False,
    remember: Annotated[
        str,
        typer.Option(
            metavar="statements|all|nothing",
            help="Which utterances are deposited; statements are all but questions and words such as 'thanks'.",
        ),
    ] = "statements",
    speaker: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="Who speaks, as deposits note it.  \\[default: the name given as --user]",
            show_default=False,
        ),
    ] = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    template: options.Template = None,
    as_json: options.JsonLines = False,
) -> int:
    """Talk to a memory: what is said is remembered, and answered from what was said before and from a corpus.

    A line is an utterance, typed or piped. One that begins with a slash is a command and is not remembered: /help,
    /list [N] (the last deposits), /forget [N …] (deposits by their numbers, or what was remembered last),
    /supersede OLD NEW (NEW holds instead of OLD), /quit. A line that begins with two slashes is said with one.
    """
    settings = resolve(
        {
            "corpus": corpus,
            "model": model,
            "device": device,
            "threads": threads,
            "dtype": dtype,
            "template": template,
            "encoder": encoder,
        }
    )
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
    choice = ModelChoice.of(settings)
    where = None if settings.corpus is None else expanded(settings.corpus)
    folder = memory_folder(settings.home, user)
    with Session(
        folder, model=choice, encoder=settings.encoder, corpus=where, options=how, started_sec=STARTED_SEC
    ) as session:
        _converse(session, as_json)
    return 0


def _converse(session: Session, as_json: bool) -> None:
    """Utterance after utterance; how the session began is told with the first reply."""
    is_told = False
    told: set[str] = set()

    def answer(line: str) -> bool:
        nonlocal is_told
        utterance = said_of(line)
        if utterance is None:
            return run_command(session, line, as_json=as_json)
        reply = session.say(utterance)
        tell_lines(*(line for line in reply.damage.lines if line not in told))
        told.update(reply.damage.lines)
        if not as_json:
            _show(utterance, reply)
            return False
        began = {} if is_told or session.start is None else {"start": session.start.to_json()}
        print_json({"utterance": utterance, **reply.to_json(), **began})
        is_told = True
        return False

    converse(session.backbone.card.name, "utterance", ">", answer, as_json=as_json, more=", /help tells the commands")


def _show(utterance: str, reply: Reply) -> None:
    if not is_interactive():
        out.print(f"[bold cyan]>[/] {shown(utterance)}")
    out.print(shown(reply.text))
    if reply.text == NOTED or (reply.abstained and reply.remembered is not None):
        return
    for entry in reply.cited:
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
    parts = [] if reply.confidence is None else [f"confidence {reply.confidence:.2f}"]
    parts.append(f"{reply.tokens_processed} tokens read by the model")
    if reply.evidence:
        parts.append(f"first token after {human_seconds(reply.timings.ttft)}")
    out.print(f"[dim]{', '.join(parts)}[/]")
