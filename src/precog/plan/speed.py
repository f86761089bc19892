"""How fast a machine reads: tokens through a model, and bytes from its disk."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Speed:
    """Reading tokens takes a time that does not depend on their number, and one that does.

    Attributes:
        pass_sec: of every pass, whatever its length.
        token_sec: of every token in it.
        open_bytes_per_sec: encoded state bytes decoded and copied to where the model computes.
    """

    pass_sec: float
    token_sec: float
    open_bytes_per_sec: float

    def prefill_sec(self, num_tokens: int) -> float:
        """Seconds to read so many tokens in one pass; none takes none."""
        return self.pass_sec + num_tokens * self.token_sec if num_tokens else 0.0

    def to_json(self) -> dict[str, float]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class ReadSpeed:
    """How fast records come from where a corpus lies.

    Attributes:
        latency_sec: until the first byte.
        bytes_per_sec: after it.
    """

    latency_sec: float
    bytes_per_sec: float

    def read_sec(self, num_bytes: int) -> float:
        """Seconds for one record."""
        return self.latency_sec + num_bytes / self.bytes_per_sec

    def to_json(self) -> dict[str, float]:
        """Plain data."""
        return asdict(self)
