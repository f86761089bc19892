"""Time to the first token: a stored state injected, against no context at all and against reading the context.

*Injection overhead* is what remembering adds to the same question without any context; *TTFT* is all the time from the
question to its first token. Both are always given, because the question's own tokens have to be read in every case
(ERRATA 5, 22).
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.bench.asking import Asking
from precog.bench.ceilings import measure_ceilings
from precog.bench.filling import add_facts, create_store, fill, temporary_room
from precog.bench.harness import Rounds, interleave
from precog.bench.machine import Machine
from precog.bench.model import flops_per_token, subject_of
from precog.bench.raw import RawReader
from precog.bench.reading import PASS_TOKENS, Reading
from precog.bench.result import Ratio, Result, Value, finite
from precog.bench.sizes import check_sizes
from precog.bench.synthetic import Fact
from precog.corpus.corpus import refresh_index
from precog.corpus.search import Searcher
from precog.encoders import load_encoder
from precog.errors import UsageError
from precog.index import Retrieval

OVERHEAD_SEC = 1e-3
ENCODER_SHARE = 0.3
TTFT_SLACK_SEC = 1.5e-3


@dataclass(frozen=True)
class TtftSettings:
    """Sizes of the measurement.

    Attributes:
        num_chunks: of the corpus that is searched.
        num_questions: different ones, asked in turn.
        lengths: tokens of context that are read in context; from few, so that the crossover lies between two of them.
        repeats: rounds of the short ways.
        long_repeats: rounds of reading in context.
        answers: whole grounded answers, to count the mask.
        warm_up: rounds that do not count.
        retrieval: how chunks are found: ``hybrid`` or ``dense``.
    """

    num_chunks: int = 10_000
    num_questions: int = 8
    lengths: tuple[int, ...] = (4, 16, 64, 128, 256, 512, 1024, 2048, 4096)
    repeats: int = 100
    long_repeats: int = 3
    answers: int = 4
    warm_up: int = 4
    retrieval: Retrieval = "hybrid"

    def __post_init__(self) -> None:
        sizes = {"--chunks": self.num_chunks, "num_questions": self.num_questions, "repeats": self.repeats}
        lengths = {"long_repeats": self.long_repeats, "lengths": min(self.lengths, default=0)}
        check_sizes("ttft", {**sizes, **lengths})
        if self.retrieval == "bm25":
            hint = "words alone need no encoder to be compared with"
            raise UsageError("bench ttft: --retrieval", given="bm25", expected="hybrid or dense", hint=hint)


QUICK = TtftSettings(
    num_chunks=200, num_questions=2, lengths=(4, 64, 128), repeats=3, long_repeats=1, answers=1, warm_up=1
)


def sized(*, quick: bool, num_chunks: int | None, retrieval: Retrieval) -> TtftSettings:
    """The sizes that were asked for; the usual ones where nothing was."""
    settings = replace(QUICK if quick else TtftSettings(), retrieval=retrieval)
    return settings if num_chunks is None else replace(settings, num_chunks=num_chunks)


def bench_ttft(
    backbone: Backbone,
    settings: TtftSettings | None = None,
    *,
    encoder: str | None = None,
    folder: Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures on a temporary corpus whose questions are answered by chunks the model has read.

    Args:
        backbone: the model.
        settings: sizes.
        encoder: sentence encoder; the default one when None.
        folder: where the temporary corpus is made; the system's own place when None.
        quick: said in the result.
        say: told what is being done.

    Raises:
        StorageError: there is no room for the corpus.
    """
    settings = settings or TtftSettings()
    machine = Machine.here()
    with temporary_room(folder) as room:
        say(f"filling a corpus of {settings.num_chunks:,} chunks")
        corpus = room / "corpus"
        facts = _make_corpus(corpus, backbone, settings, encoder)
        with (
            Searcher(corpus, encoder=encoder, retrieval=settings.retrieval) as searcher,
            RawReader(searcher.store) as raw,
        ):
            asking = Asking(searcher, backbone, facts, raw)
            asking.check()
            say("asking")
            short = interleave(asking.sides(), repeats=settings.repeats, warm_up=settings.warm_up)
            mask = asking.masks(settings.answers)
            say("reading in context")
            reading = Reading(backbone, asking.segments, max(settings.lengths))
            best_pass = reading.fastest_pass()
            long = reading.measure(
                settings.lengths, best_pass, repeats=settings.long_repeats, warm_up=min(1, settings.warm_up)
            )
    ceilings = measure_ceilings(backbone.device, backbone.encoding_dtype, quick=quick)
    values, ratios = figures(settings, short, long, statistics.fmean(map(len, asking.segments)))
    values |= {"mask": mask, "in_context_pass_tokens": best_pass, "num_chunks": settings.num_chunks}
    return Result(
        name="ttft",
        values=values,
        ratios=ratios,
        ceiling={
            **ceilings.to_json(),
            "pread_sec": short["pread"].median,
            "crc_sec": short["crc"].median,
            "prefill_flops_per_token": flops_per_token(backbone),
        },
        machine=machine,
        subject=subject_of(backbone),
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=(
            "injection overhead = encode + search + load + inject; TTFT also reads the question's tokens",
            "in_context reads chunk and question in passes of the fastest size of " + ", ".join(map(str, PASS_TOKENS)),
        ),
    )


def _make_corpus(corpus: Path, backbone: Backbone, settings: TtftSettings, encoder: str | None) -> list[Fact]:
    keys = load_encoder(encoder)
    with create_store(corpus, backbone.spec, encoder_fingerprint=keys.fingerprint, key_dim=keys.dim) as store:
        fill(store, backbone.spec, settings.num_chunks - settings.num_questions)
        facts = add_facts(store, backbone, keys, settings.num_questions)
        refresh_index(store, keys.fingerprint)
    return facts


def crossover(lengths: Sequence[int], seconds: Sequence[float], none_sec: float, inject_sec: float) -> float | None:
    """Tokens of context from which injecting is faster than reading them; None when it never is.

    Between two measured lengths the time is taken to grow evenly; no context at all is a measured length, too.
    """
    before, before_sec = 0.0, none_sec
    if before_sec >= inject_sec:
        return 0.0
    for length, sec in zip(lengths, seconds, strict=True):
        if sec >= inject_sec:
            return before + (length - before) * (inject_sec - before_sec) / (sec - before_sec)
        before, before_sec = float(length), sec
    return None


def figures(
    settings: TtftSettings, short: Rounds, long: Rounds, question_tokens: float
) -> tuple[dict[str, Value], dict[str, Ratio]]:
    """Values and ratios out of seconds."""
    added = short.combined(("search", "load", "inject"))
    overhead = short.combined(("encode", "search", "load", "inject"))
    stages = ("encode", "search", "load", "inject", "pread", "crc", "ttft_none", "ttft_inject", "ttft_grounded")
    values: dict[str, Value] = {name: finite(short[name].to_json()) for name in stages}
    values["search_load_crc_inject"] = finite(added.to_json())
    values["injection_overhead"] = finite(overhead.to_json())
    values["question_tokens"] = question_tokens
    inject = short["ttft_inject"].median
    rows: list[Value] = []
    for length in settings.lengths:
        seconds = long[f"{length}"].median
        row: dict[str, Value] = {
            "context_tokens": length,
            "ttft_sec": seconds,
            "ttft_over_inject": seconds / inject,
            "tokens_over_inject": (length + question_tokens) / question_tokens,
            "reading_over_injection_overhead": max(0.0, seconds - short["ttft_none"].median) / overhead.median,
        }
        rows.append(row)
    values["in_context"] = rows
    values["crossover_tokens"] = crossover(
        settings.lengths, [long[f"{n}"].median for n in settings.lengths], short["ttft_none"].median, inject
    )
    slack = f"no context + encoder + {1e3 * TTFT_SLACK_SEC:g} ms"
    ratios = {
        "overhead_per_ms": Ratio(added.median / OVERHEAD_SEC, 1.0, True, "search + load + CRC + inject / 1 ms"),
        "overhead_per_encoder": Ratio(
            added.median / short["encode"].median,
            ENCODER_SHARE,
            True,
            "search + load + CRC + inject / sentence encoder",
        ),
        "ttft_inject": Ratio(_over_none(short, "ttft_inject", "encode"), 1.0, True, f"TTFT injected / ({slack})"),
        "ttft_grounded": Ratio(
            _over_none(short, "ttft_grounded", "grounded_encode"),
            1.0,
            True,
            f"TTFT grounded, mask included / ({slack})",
        ),
    }
    return values, ratios


def _over_none(short: Rounds, ttft: str, encode: str) -> float:
    allowed = short.combined(("ttft_none", encode))
    pairs = zip(short[ttft].seconds, allowed.seconds, strict=True)
    return statistics.median(sec / (base + TTFT_SLACK_SEC) for sec, base in pairs)
