"""SQuAD v1.1 in every mode, paired on the same questions (paper Table 3; ERRATA 12, 13).

Modes: ``in_context`` reads paragraph and question in one pass · ``inject_top1`` starts from the paragraph's stored
state · ``inject_top3`` from three composed states · ``none`` has no context and decodes freely · ``mask_only`` is the
grounded mask over an empty state · ``other`` the state of a wrong paragraph under the right mask.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from precog.encoders import Encoder, load_encoder
from precog.engine.composed import Composing
from precog.engine.modes import FreeSettings
from precog.errors import UsageError
from precog.evaluate.metrics import Interval, bootstrap, exact_match, f1, paired_bootstrap
from precog.evaluate.reader import ParagraphReader, Said
from precog.evaluate.regex_baseline import answer_by_rule
from precog.evaluate.squad_data import Question, ids_sha256
from precog.index import HybridIndex, IndexSource

MODES = ("in_context", "inject_top1", "inject_top3", "none", "mask_only", "other")


@dataclass(frozen=True)
class SquadSettings:
    """What is measured.

    Attributes:
        modes: in the order of the report.
        context: ``gold`` hands over the question's own paragraph; ``retrieved`` the best of all paragraphs.
        compose_temperature: of the softmax over retrieval scores in ``inject_top3``.
        seed: of the wrong paragraphs of ``other``.
    """

    modes: tuple[str, ...] = MODES
    context: str = "gold"
    compose_temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.modes) - set(MODES))
        if unknown or not self.modes:
            raise UsageError("--modes: no such mode", given=", ".join(unknown) or "none", expected=", ".join(MODES))
        if self.context not in ("gold", "retrieved"):
            raise UsageError("--context: no such choice", given=self.context, expected="gold or retrieved")
        Composing(temperature=self.compose_temperature)  # refuses what is no temperature


class Paragraphs:
    """All paragraphs of a file as a small corpus: hybrid retrieval over them."""

    def __init__(
        self, questions: Sequence[Question], encoder_spec: str | None = None, encoder: Encoder | None = None
    ) -> None:
        self.texts = list(dict.fromkeys(question.context for question in questions))
        self._encoder = load_encoder(encoder_spec) if encoder is None else encoder
        keys = self._encoder.encode_passages(self.texts)
        source = IndexSource(
            dim=self._encoder.dim,
            generation=0,
            tag=self._encoder.fingerprint,
            chunk_ids=lambda: range(len(self.texts)),
            keys=lambda ids: ((i, keys[i]) for i in (range(len(self.texts)) if ids is None else ids)),
            texts=lambda ids: ((i, self.texts[i]) for i in (range(len(self.texts)) if ids is None else ids)),
        )
        self._index = HybridIndex.build(source)

    def search(self, question: str, k: int) -> tuple[list[str], list[float]]:
        """The k best paragraphs and their scores."""
        hits = self._index.search(question, self._encoder.encode_query(question), k)
        return [self.texts[hit.chunk_id] for hit in hits], [hit.score for hit in hits]


@dataclass(frozen=True)
class Sample:
    """One question's answers, for whoever wants to read them."""

    id: str
    question: str
    answers: tuple[str, ...]
    said: dict[str, Said]


@dataclass(frozen=True)
class _Given:
    question: str
    paragraph: str
    three: Sequence[str]
    scores: Sequence[float]
    other: str


def _say(reader: ParagraphReader, mode: str, given: _Given, temperature: float) -> Said:
    match mode:
        case "in_context":
            return reader.in_context(given.question, given.paragraph)
        case "inject_top1":
            return reader.inject(given.question, [given.paragraph], [1.0], 1.0)
        case "inject_top3":
            return reader.inject(given.question, given.three, given.scores, temperature)
        case "none":
            return reader.none(given.question)
        case "mask_only":
            return reader.mask_only(given.question, given.paragraph)
        case _:
            return reader.inject_other(given.question, given.paragraph, given.other)


def evaluate(
    questions: Sequence[Question],
    everything: Sequence[Question],
    reader: ParagraphReader,
    settings: SquadSettings,
    encoder_spec: str | None = None,
    on_question: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, object], list[Sample]]:
    """Answer every question in every mode and score it.

    Args:
        questions: the subset that is scored.
        everything: the whole file; its paragraphs are what retrieval searches and wrong paragraphs are drawn from.
        reader: model, codec and decoding.
        settings: what is measured.
        encoder_spec: sentence encoder; the default one when None.
        on_question: called with the number of questions done.

    Returns:
        The JSON object of ``precog eval squad``, and the samples.
    """
    modes = settings.modes
    searched = settings.context == "retrieved" or "inject_top3" in modes
    paragraphs = Paragraphs(everything, encoder_spec) if searched else None
    rng = random.Random(settings.seed)
    texts = sorted({question.context for question in everything})
    samples: list[Sample] = []
    ranks: list[int] = []
    for done, question in enumerate(questions, 1):
        found, scores = paragraphs.search(question.question, 10) if paragraphs else ([], [])
        ranks.append(found.index(question.context) if question.context in found else len(found))
        first = question.context if settings.context == "gold" or not found else found[0]
        three, weights = found[:3], scores[:3]
        if settings.context == "gold" and searched and question.context not in three:
            three, weights = [question.context, *three[:2]], [max(weights), *weights[:2]]
        other = rng.choice(texts)
        while other == first and len(texts) > 1:
            other = rng.choice(texts)
        given = _Given(question.question, first, three, weights, other)
        reader.encode([first, *three, *([other] if "other" in modes else [])])
        said = {mode: _say(reader, mode, given, settings.compose_temperature) for mode in modes}
        samples.append(Sample(question.id, question.question, question.answers, said))
        on_question(done)
    return _report(questions, samples, ranks if searched else [], reader, settings), samples


def _report(
    questions: Sequence[Question],
    samples: Sequence[Sample],
    ranks: Sequence[int],
    reader: ParagraphReader,
    settings: SquadSettings,
) -> dict[str, object]:
    f1_of = {mode: [f1(s.said[mode].text, s.answers) for s in samples] for mode in settings.modes}
    em_of = {mode: [exact_match(s.said[mode].text, s.answers) for s in samples] for mode in settings.modes}
    table: dict[str, object] = {}
    for mode in settings.modes:
        em, f1_ = bootstrap(em_of[mode]), bootstrap(f1_of[mode])
        table[mode] = {
            "em": em.mean,
            "em_interval": [em.low, em.high],
            "f1": f1_.mean,
            "f1_interval": [f1_.low, f1_.high],
            "mean_tokens_processed": float(np.mean([s.said[mode].tokens_processed for s in samples])),
            "mean_latency_sec": float(np.mean([s.said[mode].latency_sec for s in samples])),
        }
    paired = [(answer_by_rule(q.question, q.context), q) for q in questions]
    free = isinstance(reader.settings, FreeSettings)
    report: dict[str, object] = {
        "modes": table,
        "n": len(samples),
        "ids_sha256": ids_sha256(questions),
        "decoding": {"grounded": not free, **asdict(reader.settings)},
        "context": settings.context,
        "recall": {str(k): float(np.mean([rank < k for rank in ranks])) for k in (1, 3, 10)} if ranks else None,
        "agreement": {
            mode: float(np.mean([s.said[mode].text == s.said["in_context"].text for s in samples]))
            for mode in settings.modes
            if mode.startswith("inject") and "in_context" in settings.modes
        },
        "baseline": {
            "em": float(np.mean([exact_match(said, q.answers) for said, q in paired])),
            "f1": float(np.mean([f1(said, q.answers) for said, q in paired])),
        },
        "model": reader.backbone.card.name,
        "fingerprint": reader.backbone.fingerprint,
        "encoding": {
            "mode": reader.backbone.encode_mode,
            "codec": reader.codec,
            "dtype": reader.backbone.encoding_dtype,
        },
        "seed": settings.seed,
    }
    if "inject_top1" in settings.modes:
        report["f1_gain_over"] = {
            mode: _interval(paired_bootstrap(f1_of["inject_top1"], f1_of[mode]))
            for mode in settings.modes
            if mode != "inject_top1"
        }
    return report


def _interval(interval: Interval) -> dict[str, float]:
    return {"value": interval.mean, "low": interval.low, "high": interval.high}
