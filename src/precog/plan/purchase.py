"""What stored states buy on a device: every way side by side, from where on injecting pays, and what it costs to store.

Offline encoding is counted on the device itself, the highest price it can have: a corpus encoded elsewhere costs it
nothing.
"""

import math
from dataclasses import dataclass

from precog.errors import UsageError
from precog.plan.device import EdgeDevice
from precog.plan.paper import PAPER
from precog.plan.storage import key_bytes
from precog.plan.timeline import TEXT_BYTES_PER_TOKEN, Question, Timeline, timelines

KEY_BYTES = key_bytes(1, PAPER.edge.key_dim, 4)
MOST_CHUNKS = 10**12


@dataclass(frozen=True)
class Purchase:
    """What it buys.

    Attributes:
        device: that it is bought for.
        question: that is asked.
        num_chunks: of the corpus.
        timelines: of every way.
    """

    device: EdgeDevice
    question: Question
    num_chunks: int
    timelines: tuple[Timeline, ...]

    def of(self, way: str) -> Timeline:
        """One way's."""
        return next(line for line in self.timelines if line.way == way)

    def storage_bytes(self, way: str) -> int:
        """Of the whole corpus, keys included."""
        return self.num_chunks * (self.question.stored_bytes(way) + KEY_BYTES)

    @property
    def break_even_tokens(self) -> int:
        """The shortest chunk that is there sooner by injecting its state than by reading it.

        Finding, and the question's own tokens, cost both ways the same; so does the flash's latency, because a text is
        fetched by as many reads as a state. A state's size is taken not to depend on the chunk.
        """
        device = self.device
        injecting = self.question.state_bytes / device.flash_bytes_per_sec + device.inject_sec
        token_sec = 1 / device.prefill_tok_per_sec + TEXT_BYTES_PER_TOKEN / device.flash_bytes_per_sec
        return math.floor(injecting / token_sec) + 1

    @property
    def encode_sec(self) -> float:
        """To read the whole corpus once on this device."""
        return self.num_chunks * self.device.prefill_sec(self.question.chunk_tokens)

    @property
    def saved_sec(self) -> float:
        """Of every question, against reading in context; below 0 where injecting is slower."""
        return self.of("in-context").first_token_sec - self.of("inject").first_token_sec

    @property
    def questions_to_pay(self) -> int | None:
        """Questions until encoding the corpus on this device has cost less than reading in context; None: never."""
        return math.ceil(self.encode_sec / self.saved_sec) if self.saved_sec > 0 else None

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        inject, reading = self.of("inject"), self.of("in-context")
        overhead = inject.added_sec
        return {
            "device": self.device.to_json(),
            "question": {
                "chunk_tokens": self.question.chunk_tokens,
                "query_tokens": self.question.query_tokens,
                "answer_tokens": self.question.answer_tokens,
                "top_k": self.question.top_k,
                "state_bytes": self.question.state_bytes,
            },
            "chunks": self.num_chunks,
            "ways": [{**line.to_json(), "storage_bytes": self.storage_bytes(line.way)} for line in self.timelines],
            "injection_overhead_sec": overhead,
            "ttft_speedup": reading.first_token_sec / inject.first_token_sec,
            "added_speedup": reading.added_sec / overhead,
            "break_even_tokens": self.break_even_tokens,
            "encode_corpus_sec": self.encode_sec,
            "encode_corpus_joules": self.device.joules(self.encode_sec),
            "questions_to_pay": self.questions_to_pay,
            "composition_exact": self.question.top_k == 1,
        }


def purchase(device: EdgeDevice, question: Question, num_chunks: int = PAPER.edge.corpus_chunks) -> Purchase:
    """Compare all ways on a device.

    Args:
        device: which.
        question: what is asked.
        num_chunks: of the corpus, at least as many as are brought in.

    Raises:
        UsageError: there are too few chunks, or absurdly many.
    """
    if not question.top_k <= num_chunks <= MOST_CHUNKS:
        expected = f"{question.top_k:,} (--top-k) to {MOST_CHUNKS:,}"
        raise UsageError("--chunks is out of range", given=num_chunks, expected=expected)
    return Purchase(device, question, num_chunks, tuple(timelines(device, question)))
