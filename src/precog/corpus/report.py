"""What an ingest run tells: while it runs, to whoever watches, and at its end."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from precog.refine.tally import StudyTally


@runtime_checkable
class Progress(Protocol):
    """Watches a run; called from the thread that indexes."""

    def growing(self, state_bytes: int, room_tokens: int) -> None:
        """The model's states grow with the text: what each stored one takes, and the tokens it has room for."""
        ...

    def start(self, total_bytes: int) -> None:
        """All sources are known: their sizes, summed."""
        ...

    def reading(self, document: str) -> None:
        """A document is opened."""
        ...

    def advance(self, done_bytes: int, num_tokens: int) -> None:
        """How many source bytes are dealt with so far, and how many tokens were read."""
        ...


class Silent:
    """Watches and says nothing."""

    def growing(self, state_bytes: int, room_tokens: int) -> None:
        """Nothing."""

    def start(self, total_bytes: int) -> None:
        """Nothing."""

    def reading(self, document: str) -> None:
        """Nothing."""

    def advance(self, done_bytes: int, num_tokens: int) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Remark:
    """What is to be said about one document: why it yields nothing, or what of it could not be read."""

    document: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """As the command line prints it."""
        return {"document": self.document, "reason": self.reason}


@dataclass
class IngestReport:
    """What one run of ingest did.

    Attributes:
        new: documents that were not in the corpus.
        changed: documents that say something else than before.
        unchanged: documents that were not read again.
        failed: documents that yield nothing, whether read now or found unchanged.
        missing: documents of the corpus whose file has vanished.
        pruned: those of them that were forgotten.
        chunks: chunks added.
        states: states made: fewer where chunks say the same.
        parts: states of sentences and rows that were made, of those counted in ``states``.
        let_go: states that gave way to the corpus's budget.
        study: what became of states that were studied.
        tokens: tokens of the added chunks.
        bytes: of the documents that were read.
        elapsed_sec: of the whole run.
        skipped: files and folders passed over, by reason.
        passed_over: the first 1,000 of them by name, those of the corpus itself left out.
        failures: one remark for each failed document.
        warnings: what was read only in part.
    """

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    missing: list[str] = field(default_factory=list)
    pruned: int = 0
    chunks: int = 0
    states: int = 0
    parts: int = 0
    let_go: int = 0
    study: StudyTally = field(default_factory=StudyTally)
    tokens: int = 0
    bytes: int = 0
    elapsed_sec: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)
    passed_over: list[Remark] = field(default_factory=list)
    failures: list[Remark] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)

    @property
    def tokens_per_sec(self) -> float:
        """Tokens of added chunks over the time of the whole run."""
        return self.tokens / self.elapsed_sec if self.elapsed_sec > 0 else 0.0

    @property
    def anything(self) -> bool:
        """Whether the corpus now holds at least one of the documents that were named."""
        return self.new + self.changed + self.unchanged > 0

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "documents": {
                "new": self.new,
                "changed": self.changed,
                "unchanged": self.unchanged,
                "failed": self.failed,
                "missing": len(self.missing),
            },
            "chunks": self.chunks,
            "states": self.states,
            "parts": self.parts,
            "let_go": self.let_go,
            **self.study.to_json(),
            "tokens": self.tokens,
            "bytes": self.bytes,
            "tokens_per_sec": round(self.tokens_per_sec, 1),
            "elapsed_sec": round(self.elapsed_sec, 3),
            "failures": [failure.to_json() for failure in self.failures],
            "warnings": [warning.to_json() for warning in self.warnings],
            "missing": self.missing,
            "pruned": self.pruned,
            "skipped": self.skipped,
            "passed_over": [remark.to_json() for remark in self.passed_over],
        }
