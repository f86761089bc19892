"""``precog ask``: one question, or a prompt that loads once."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.conversation import converse, is_interactive
from precog.cli.main import STARTED_SEC
from precog.cli.output import human_seconds, out, print_json, shown
from precog.cli.sources import print_source
from precog.cli.text import visible
from precog.config import resolve
from precog.corpus.answer import CorpusAnswer
from precog.corpus.ask import Asker, AskOptions
from precog.engine.composed import DEFAULT_RULE, DEFAULT_TEMPERATURE
from precog.engine.sampling import Sampling
from precog.errors import UsageError
from precog.records import ModelChoice


def ask(
    question: Annotated[
        str | None,
        typer.Argument(metavar="[QUESTION]", help="What to answer; without it, a prompt.", show_default=False),
    ] = None,
    corpus: options.Corpus = None,
    model: options.Model = None,
    mode: Annotated[
        str,
        typer.Option(
            metavar="auto|inject|resume|in-context|none",
            help="How the context comes into the model: stored states are injected; resume injects the longest text's "
            "and reads the others; in-context reads them all; auto takes the quickest way to the same context.",
        ),
    ] = "inject",
    top_k: Annotated[int, typer.Option(metavar="N", help="Chunks retrieved and cited.")] = 3,
    inject: Annotated[
        int,
        typer.Option(metavar="N", help="States composed. The shipped model was trained on one chunk."),
    ] = 1,
    compose: options.Compose = DEFAULT_RULE,
    compose_temperature: options.ComposeTemperature = DEFAULT_TEMPERATURE,
    compose_renorm: Annotated[
        str, typer.Option(metavar="none|layer", help="Scale a composed state's layers to its members' norm.")
    ] = "none",
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="SUBSET", help="Layers to inject, such as bottom:6.  \\[default: all stored]", show_default=False
        ),
    ] = None,
    free: options.Free = False,
    min_confidence: options.MinConfidence = None,
    always_answer: options.AlwaysAnswer = False,
    temperature: Annotated[float, typer.Option(metavar="T", help="0 is greedy (with --free).")] = 0.0,
    top_p: Annotated[float, typer.Option(metavar="P", help="Probability kept (with --free).")] = 1.0,
    sample_top_k: Annotated[int, typer.Option(metavar="N", help="Tokens kept, 0 for all (with --free).")] = 0,
    seed: options.Seed = 0,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Most tokens of an answer.", show_default=False)
    ] = None,
    retrieval: options.Retrieval = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    template: options.Template = None,
    as_json: options.JsonLines = False,
) -> int:
    """Answer a question from what the model remembers of the documents, with sources.

    By default the answer is a span of the retrieved text; no text is read again to find it.
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
            "retrieval": retrieval,
        }
    )
    how = AskOptions(
        mode=mode,
        top_k=top_k,
        inject=inject,
        compose=compose,
        compose_temperature=compose_temperature,
        compose_renorm=compose_renorm,
        layers=layers,
        free=free,
        min_confidence=min_confidence,
        always_answer=always_answer,
        sampling=Sampling(temperature, top_p, sample_top_k, seed),
        max_tokens=max_tokens,
    )
    if question is not None and not question.strip():
        raise UsageError("the question is empty", given="0 tokens", expected="a question")
    where = None if mode == "none" and settings.corpus is None else settings.corpus_folder
    with Asker(
        where,
        model=ModelChoice.of(settings),
        encoder=settings.encoder,
        retrieval=settings.retrieval,
        started_sec=STARTED_SEC,
        home=settings.home,
    ) as asker:
        if question is not None:
            _answer(asker, question, how, as_json)
        else:
            _converse(asker, how, as_json)
    return 0


def _converse(asker: Asker, how: AskOptions, as_json: bool) -> None:
    """Question after question."""
    num_asked = 0

    def answer(question: str) -> None:
        nonlocal num_asked
        if not is_interactive() and not as_json:
            if num_asked:
                out.print()
            out.print(f"[bold cyan]?[/] {shown(question)}")
        num_asked += 1
        _answer(asker, question, how, as_json)

    converse(asker.backbone.card.name, "question", "?", answer, as_json=as_json)


def _answer(asker: Asker, question: str, how: AskOptions, as_json: bool) -> None:
    if as_json:
        print_json({"question": question, **asker.ask(question, how).to_json()})
        return
    stream = _Stream()
    answer = asker.ask(question, how, on_text=stream)
    if not stream.anything:
        print(visible(answer.text), end="")
    print(flush=True)
    _print_rest(asker, how, answer)


class _Stream:
    """Shows an answer as it comes.

    Attributes:
        anything: whether something was shown.
    """

    def __init__(self) -> None:
        self.anything = False

    def __call__(self, text: str) -> None:
        self.anything = self.anything or bool(text)
        print(visible(text), end="", flush=True)


def _print_rest(asker: Asker, how: AskOptions, answer: CorpusAnswer) -> None:
    if how.speaks_freely and not answer.abstained:
        out.print("[dim]the model's own words, not grounded in the documents[/]")
    if answer.sources:
        out.print()
    num_used = len(answer.mixture.weights)
    for number, found in enumerate(answer.sources):
        cited = answer.citation is not None and answer.citation.source == number
        span = answer.citation.span if cited and answer.citation is not None else None
        use = _use(asker, answer, number < num_used, found.chunk.is_stored)
        use += ", refined" if answer.mixture.was_refined(number) else ""
        use += "" if answer.mixture.focus_of(number) is None else ", focused on one sentence"
        print_source(number + 1, found, span, use=use)
    mixture = answer.mixture
    if len(mixture.weights) > 1:
        weights = ", ".join(f"{weight:.2f}" for weight in mixture.weights)
        exactly = "refined" if mixture.is_refined else "exact" if mixture.exact else "approximate"
        out.print(f"[dim]{len(mixture.weights)} contexts, {mixture.rule} ({weights}), {exactly}[/]")
    if answer.plan is not None and how.mode == "auto":
        out.print(f"[dim]{answer.plan.way}: {shown(answer.plan.reason)}[/]")
    is_studied = asker.searcher is not None and asker.searcher.settings.is_studied
    if is_studied and answer.plan is not None and answer.plan.way in ("resume", "in-context"):
        out.print(f"[dim]{answer.plan.way}: texts are read whole, so that no state is focused on a sentence[/]")
    times = answer.timings
    parts = [f"{name} {human_seconds(value)}" for name, value in _breakdown(answer) if value]
    sure = _confidence(answer)
    out.print(f"[dim]{sure}{answer.tokens_processed} tokens read by the model[/]")
    out.print(f"[dim]{' + '.join(parts)} = first token after {human_seconds(times.ttft)}[/]")
    startup = f", start-up {human_seconds(times.startup)}" if times.startup else ""
    out.print(f"[dim]total {human_seconds(times.total)}{startup}[/]")


def _use(asker: Asker, answer: CorpusAnswer, is_used: bool, is_stored: bool) -> str:
    if not is_used:
        return "only found"
    if answer.mode == "inject" and not is_stored:
        is_trained = asker.searcher is not None and asker.searcher.settings.is_trained
        again = "read again, not studied" if is_trained else "read again"
        return f"its state gave way: {again}, then injected"
    return "injected" if answer.mode == "inject" else "read"


def _confidence(answer: CorpusAnswer) -> str:
    """With a third decimal and the threshold where it decided; nothing of a free answer, which has none."""
    if answer.confidence is None:
        return ""
    if not answer.abstained:
        return f"confidence {answer.confidence:.2f}, "
    return f"confidence {answer.confidence:.3f}, below {answer.threshold:.3f}, "


def _breakdown(answer: CorpusAnswer) -> list[tuple[str, float]]:
    times = answer.timings
    return [
        ("encode", times.encode),
        ("search", times.search),
        ("load", times.load),
        ("inject", times.inject),
        ("read question", times.first_token),
    ]
