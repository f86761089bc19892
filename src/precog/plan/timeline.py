"""What a device does from a question to the end of its answer, in virtual time, in each way to bring chunks in.

Three ways, one of them in the paper's reading, too:

    inject        states are loaded and copied (Theorem 1); of several, their average
    in-context    the chunks are read again
    kv-cache      a Transformer's keys and values are loaded: valid as a prefix, so for the first chunk only; any
                  further chunk stands at other positions and is read (ERRATA 8)
    kv-recomputed the same as the paper has it: nothing stored is of use, all is computed again (Table 2)

A Transformer is taken to read and write as fast as the SSM, as the paper does.
"""

from dataclasses import asdict, dataclass, field

from precog.errors import UsageError
from precog.plan.device import EdgeDevice
from precog.plan.paper import PAPER
from precog.plan.storage import cache_token_bytes, state_bytes

WAYS = ("inject", "in-context", "kv-cache", "kv-recomputed")
FINDING = ("tokenise", "encode", "search")
"""Stages before anything is brought in; with ``tokenise`` and ``read question`` those of no context at all."""
BRINGING = ("load", "inject", "read context")
TEXT_BYTES_PER_TOKEN = PAPER.edge.counted_text_bytes / PAPER.edge.chunk_tokens
_OPTIONS = {
    "chunk_tokens": "--chunk", "query_tokens": "--query", "answer_tokens": "--answer", "top_k": "--top-k",
    "state_bytes": "--state-bytes", "cache_token_bytes": "cache_token_bytes",
}  # fmt: skip
_MOST = {"chunk_tokens": 10**9, "query_tokens": 10**9, "answer_tokens": 10**9, "top_k": 10**6, "state_bytes": 10**15,
         "cache_token_bytes": 10**12}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What is asked of a device.

    Attributes:
        chunk_tokens: of a chunk.
        query_tokens: of the question with its template.
        answer_tokens: that are written.
        top_k: chunks that are brought in.
        state_bytes: of a stored state.
        cache_token_bytes: that a Transformer keeps of a token.
        first_token_pass: whether one pass more is counted for the first token, as the paper does; the pass of the last
            query token already gives its logits (ERRATA 23).

    Raises:
        UsageError: a size below 1, or absurdly large.
    """

    chunk_tokens: int = PAPER.edge.chunk_tokens
    query_tokens: int = PAPER.edge.counted_query_tokens
    answer_tokens: int = 20
    top_k: int = 1
    state_bytes: int = field(default_factory=lambda: state_bytes(PAPER.model))
    cache_token_bytes: int = field(default_factory=lambda: cache_token_bytes(PAPER.llama))
    first_token_pass: bool = False

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            if not 1 <= getattr(self, name) <= most:
                given, expected = getattr(self, name), f"1 to {most:,}"
                raise UsageError(f"{_OPTIONS[name]} is out of range", given=given, expected=expected)

    @property
    def text_bytes(self) -> int:
        """Bytes of a chunk's text, at the measured 4.3 a token (ERRATA 24)."""
        return round(self.chunk_tokens * TEXT_BYTES_PER_TOKEN)

    def stored_bytes(self, way: str) -> int:
        """Bytes that a way stores of a chunk, its key aside."""
        caches = self.chunk_tokens * self.cache_token_bytes
        return {"inject": self.state_bytes, "kv-cache": caches}.get(way, self.text_bytes)


@dataclass(frozen=True)
class Stage:
    """A stretch of time.

    Attributes:
        name: ``tokenise``, ``encode``, ``search``, ``load``, ``inject``, ``read context``, ``read question``,
            ``first token`` or ``answer``.
        start_sec, end_sec: since the question came.
        joules: spent in it; None where the watts are unknown.
        num_bytes: read from flash.
        tokens: read or written.
    """

    name: str
    start_sec: float
    end_sec: float
    joules: float | None
    num_bytes: int = 0
    tokens: int = 0

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_sec - self.start_sec


@dataclass(frozen=True)
class Timeline:
    """All of them, one after the other.

    Attributes:
        way: one of `WAYS`.
        stages: without gaps; those that take no time are left out.
        first_token_sec: time to the first token (TTFT).
    """

    way: str
    stages: tuple[Stage, ...]
    first_token_sec: float

    @property
    def added_sec(self) -> float:
        """What finding and bringing in adds to the question alone; of ``inject`` it is the injection overhead."""
        return sum(stage.seconds for stage in self.stages if stage.name in (*FINDING[1:], *BRINGING))

    @property
    def total_sec(self) -> float:
        """Until the answer ends."""
        return self.stages[-1].end_sec

    @property
    def joules(self) -> float | None:
        """Of the question and its answer; None where the watts are unknown."""
        spent = [stage.joules for stage in self.stages]
        return None if None in spent else sum(value for value in spent if value is not None)

    @property
    def num_bytes(self) -> int:
        """Read from flash."""
        return sum(stage.num_bytes for stage in self.stages)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "way": self.way,
            "added_sec": self.added_sec,
            "ttft_sec": self.first_token_sec,
            "total_sec": self.total_sec,
            "joules": self.joules,
            "bytes_read": self.num_bytes,
            "stages": [asdict(stage) for stage in self.stages],
        }


def timeline(way: str, device: EdgeDevice, question: Question) -> Timeline:
    """One way, stage by stage.

    Args:
        way: one of `WAYS`.
        device: that does it.
        question: what is asked.

    Raises:
        UsageError: there is no such way.
    """
    if way not in WAYS:
        raise UsageError("there is no such way", given=way, expected=", ".join(WAYS))
    k, chunk = question.top_k, question.chunk_tokens
    loads = {"inject": k * question.state_bytes, "kv-cache": question.stored_bytes(way) + (k - 1) * question.text_bytes}
    loaded = loads.get(way, k * question.text_bytes)
    context = {"inject": 0, "kv-cache": (k - 1) * chunk}.get(way, k * chunk)
    clock = _Clock(device)
    clock.spend("tokenise", device.tokenize_sec)
    clock.spend("encode", device.encoder_sec)
    clock.spend("search", device.search_sec)
    clock.spend("load", device.load_sec(loaded, k), num_bytes=loaded)
    copied = {"inject": k, "kv-cache": 1}.get(way, 0)  # a cache counts as a state, in its favour
    clock.spend("inject", copied * device.inject_sec)
    clock.spend("read context", device.prefill_sec(context), tokens=context)
    clock.spend("read question", device.prefill_sec(question.query_tokens), tokens=question.query_tokens)
    more = int(question.first_token_pass)
    clock.spend("first token", device.decode_sec(more), tokens=more)
    first = clock.now
    clock.spend("answer", device.decode_sec(question.answer_tokens - 1), tokens=question.answer_tokens - 1)
    return Timeline(way, tuple(clock.stages), first)


def timelines(device: EdgeDevice, question: Question) -> list[Timeline]:
    """All ways, in the order of `WAYS`."""
    return [timeline(way, device, question) for way in WAYS]


class _Clock:
    """Virtual time: each stage begins where the one before ended."""

    def __init__(self, device: EdgeDevice) -> None:
        self.now = 0.0
        self.stages: list[Stage] = []
        self._device = device

    def spend(self, name: str, seconds: float, *, num_bytes: int = 0, tokens: int = 0) -> None:
        if seconds:
            joules = self._device.joules(seconds)
            self.stages.append(Stage(name, self.now, self.now + seconds, joules, num_bytes, tokens))
            self.now += seconds
