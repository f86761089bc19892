"""What a session says, with where it comes from."""

from dataclasses import dataclass

from precog.corpus.answer import Timings
from precog.corpus.search import Found
from precog.memory.damage import SOUND, Damage
from precog.memory.recall import Evidence

NOTHING = "nothing that was said or stored answers this"
REMEMBERED = "remembered"
NOTED = "there is nothing in it to remember"


@dataclass(frozen=True)
class SessionEvidence:
    """One thing that bears on an utterance: from the memory, or from the corpus.

    Attributes:
        score: cosine of the utterance and its nearest window; the same for both.
        weight: in the answer's context; 0 where it was only found.
        memory: the deposit, or None.
        corpus: the chunk, or None.
    """

    score: float
    weight: float = 0.0
    memory: Evidence | None = None
    corpus: Found | None = None

    def member(self) -> dict[str, object]:
        """Its name and weight in a composition."""
        if self.memory is not None:
            return {"origin": "memory", "id": self.memory.deposit.id, "weight": self.weight}
        assert self.corpus is not None
        return {"origin": "corpus", "document": self.corpus.chunk.source, "weight": self.weight}

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        if self.memory is not None:
            said = self.memory.to_json()
            return {"origin": "memory", **said, "score": self.score, "weight": self.weight}
        assert self.corpus is not None
        chunk = self.corpus.chunk
        return {
            "origin": "corpus",
            "document": chunk.source,
            "page": chunk.info.page,
            "span": list(chunk.info.span),
            "text": chunk.info.text,
            "score": self.score,
            "weight": self.weight,
        }


@dataclass(frozen=True)
class Start:
    """How a session began: one semantic state, whatever the length of the history (Section 5.3).

    Attributes:
        domain: the opening utterance was routed to.
        subcluster: of it.
        num_deposits: that the semantic state has read; 0 where the sub-cluster has none.
        bytes_read: of the semantic state.
        sec: from the utterance's key to the state.
    """

    domain: str
    subcluster: str
    num_deposits: int
    bytes_read: int
    sec: float

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "domain": self.domain,
            "subcluster": self.subcluster,
            "deposits": self.num_deposits,
            "bytes_read": self.bytes_read,
            "sec": self.sec,
        }


@dataclass(frozen=True)
class Reply:
    """An answer to an utterance.

    Attributes:
        text: what is said.
        evidence: what was found, the best first, memory and corpus together; cited unless it abstained.
        rule: of composition; "none" where there was no context.
        exact: whether it is exact.
        baseline: weight of the semantic state.
        confidence: of the answer, as for `CorpusAnswer`; None for a free one, or where nothing was to be answered.
        abstained: whether it says that there is no answer.
        remembered: id of the deposit that the utterance became; None when it was not remembered.
        tokens_processed: that the model read and wrote.
        timings: where the time went.
        damage: of the memory, found on the way; nothing of it is answered from.
        refined: whether a state of the corpus that was trained on after reading has gone into it.
    """

    text: str
    evidence: tuple[SessionEvidence, ...]
    rule: str
    exact: bool
    baseline: float
    confidence: float | None
    abstained: bool
    remembered: int | None
    tokens_processed: int
    timings: Timings
    damage: Damage = SOUND
    refined: bool = False

    @property
    def cited(self) -> tuple[SessionEvidence, ...]:
        """What the answer stands on: nothing where there is none."""
        return () if self.abstained else self.evidence

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        members = [entry.member() for entry in self.cited if entry.weight]
        return {
            "text": self.text,
            "evidence": [entry.to_json() for entry in self.cited],
            "looked_at": [entry.to_json() for entry in self.evidence] if self.abstained else [],
            "composition": {
                "rule": self.rule,
                "exact": self.exact,
                "refined": self.refined,
                "members": members,
                "baseline": self.baseline,
            },
            "confidence": self.confidence,
            "abstained": self.abstained,
            "remembered": self.remembered,
            "tokens_processed": self.tokens_processed,
            "timings_sec": self.timings.to_json(),
            **self.damage.to_json(),
        }
