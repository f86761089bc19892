"""What an answer is, with everything that lets a reader check it."""

from dataclasses import dataclass, field, replace

from precog.corpus.search import Found
from precog.engine.modes import Answer, Mode
from precog.plan import Plan
from precog.store import Chunk

NOT_FOUND = "not found in these documents"


@dataclass(frozen=True)
class Citation:
    """Where an answer stands, character by character.

    Attributes:
        source: index among the answer's sources.
        document: source of the document.
        page: 1-based; None where the format has no pages.
        span: first character and the one after the last, in the document's extracted text.
    """

    source: int
    document: str
    page: int | None
    span: tuple[int, int]

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {"source": self.source, "document": self.document, "page": self.page, "span": list(self.span)}


@dataclass(frozen=True)
class Timings:
    """Where the time went, in seconds.

    Attributes:
        startup: until the first question could be taken; 0 for later ones.
        encode: the question's key.
        search: comparing it.
        load: reading states from flash, checksum included.
        inject: bytes to state, composition.
        first_token: from then on until the first token, the question's tokens included.
        per_token: each further token.
        total: all of it, start-up included.
    """

    startup: float = 0.0
    encode: float = 0.0
    search: float = 0.0
    load: float = 0.0
    inject: float = 0.0
    first_token: float = 0.0
    per_token: float = 0.0
    total: float = 0.0

    @property
    def injection_overhead(self) -> float:
        """What remembering adds to the same question without any context (ERRATA 5)."""
        return self.encode + self.search + self.load + self.inject

    @property
    def ttft(self) -> float:
        """From the question to the first token."""
        return self.injection_overhead + self.first_token

    def to_json(self) -> dict[str, float]:
        """As the command line prints it."""
        values = {
            "startup": self.startup,
            "encode": self.encode,
            "search": self.search,
            "load": self.load,
            "inject": self.inject,
            "first_token": self.first_token,
            "per_token": self.per_token,
            "injection_overhead": self.injection_overhead,
            "ttft": self.ttft,
            "total": self.total,
        }
        return {key: round(value, 6) for key, value in values.items()}


def decoding_times(answer: Answer, timings: Timings) -> Timings:
    """The same with what the model took to say it."""
    further = max(1, len(answer.token_ids) - 1)
    per_token = max(0.0, answer.total_sec - answer.first_token_sec) / further
    return replace(timings, first_token=answer.first_token_sec, per_token=per_token)


@dataclass(frozen=True)
class Mixture:
    """How several states, or texts, became one context.

    Attributes:
        rule: of composition; ``read`` where the texts were read one after the other; ``none`` without context.
        exact: whether the model is in a state that reading some text leaves, or, for ``mix``, whether every member is.
        weights: of the first so many sources.
        refined: which of these were refined states: trained on after they were read, and so no longer exact.
        foci: for each source the characters of the document that its state is focused on, being the mean of the
            chunk's and that of this part of it; None where a chunk came as it was read.
    """

    rule: str = "none"
    exact: bool = True
    weights: tuple[float, ...] = ()
    refined: tuple[bool, ...] = ()
    foci: tuple[tuple[int, int] | None, ...] = ()

    @property
    def is_refined(self) -> bool:
        """Whether a refined state has gone into the context."""
        return any(self.refined)

    def was_refined(self, source: int) -> bool:
        """Whether a source came as a refined state."""
        return source < len(self.refined) and self.refined[source]

    @property
    def focused(self) -> tuple[bool, ...]:
        """Of each source that was opened, whether its state was focused."""
        return tuple(focus is not None for focus in self.foci)

    def focus_of(self, source: int) -> tuple[int, int] | None:
        """What a source was focused on."""
        return self.foci[source] if source < len(self.foci) else None

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        members = [{"source": number, "weight": weight} for number, weight in enumerate(self.weights)]
        return {"rule": self.rule, "exact": self.exact, "refined": self.is_refined, "members": members}


@dataclass(frozen=True)
class CorpusAnswer:
    """An answer from a corpus.

    Attributes:
        text: the answer, or that there is none.
        sources: what was retrieved, best first; empty where nothing is cited.
        looked_at: what was retrieved, best first, where the answer is withheld: none of it is a source of anything.
        citation: where a grounded answer stands; None for a free one.
        model: name of the model.
        mode: where its state came from.
        mixture: how the context was made.
        confidence: probability that the passage holds the answer, where the model's card has what makes one, else
            P(answer) / (P(answer) + P(no answer)); None for a free answer.
        threshold: of confidence, below which it counts as not found; None for a free answer.
        abstained: whether the confidence was too low to answer, or nothing was retrieved.
        tokens_processed: tokens the model read for this answer.
        mask_bytes: bytes that grounding touched.
        mask_sec: time it took.
        timings: where the time went.
        plan: how the texts came into the model, and why; None where there were none.
    """

    text: str
    model: str
    mode: Mode
    sources: list[Found] = field(default_factory=list)
    looked_at: list[Found] = field(default_factory=list)
    citation: Citation | None = None
    mixture: Mixture = field(default_factory=Mixture)
    confidence: float | None = None
    threshold: float | None = None
    abstained: bool = False
    tokens_processed: int = 0
    mask_bytes: int = 0
    mask_sec: float = 0.0
    timings: Timings = field(default_factory=Timings)
    plan: Plan | None = None

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "text": self.text,
            "sources": [
                {**found.to_json(), "refined": self.mixture.was_refined(number), **_spans(self.mixture, number)}
                for number, found in enumerate(self.sources)
            ],
            "citation": None if self.citation is None else self.citation.to_json(),
            "model": self.model,
            "mode": self.mode,
            "composition": self.mixture.to_json(),
            "confidence": None if self.confidence is None else round(self.confidence, 6),
            "abstained": self.abstained,
            "looked_at": [
                {**found.to_json(), **_spans(self.mixture, number)} for number, found in enumerate(self.looked_at)
            ],
            "tokens_processed": self.tokens_processed,
            "mask": {"bytes": self.mask_bytes, "sec": round(self.mask_sec, 6)},
            "plan": None if self.plan is None else self.plan.to_json(),
            "timings_sec": self.timings.to_json(),
        }


def _spans(mixture: Mixture, source: int) -> dict[str, list[int] | None]:
    focus = mixture.focus_of(source)
    return {"focus": None if focus is None else list(focus)}


def characters_of(chunk: Chunk, start: int, end: int) -> tuple[int, int] | None:
    """Where characters of what a chunk's state has read (context and text) stand in the document.

    White space at both ends is left out. None where they are not all text: the context stands somewhere else.
    """
    read = chunk.info.context + chunk.info.text
    answer = read[start:end]
    start += len(answer) - len(answer.lstrip())
    end -= len(answer) - len(answer.rstrip())
    if start < len(chunk.info.context) or start >= end:
        return None
    offset = chunk.info.span[0] - len(chunk.info.context)
    return start + offset, end + offset
