"""Table 5: how long a cache or a state takes to load on five platforms, exactly and as the paper rounds it.

The paper says that its decimal bandwidths and binary sizes disagree by about 7 %. They do so by 2.4 % for KB, 4.9 % for
MB and 7.4 % for GB; and its cells do not all take the same size: see `LoadReading`.
"""

from dataclasses import dataclass

from precog.plan.claim import Claim, claim, comes_out
from precog.plan.latency import load_sec
from precog.plan.paper import KB, MB, PAPER, Paper, Platform
from precog.plan.storage import cache_bytes, state_bytes


@dataclass(frozen=True)
class LoadReading:
    """A way to count an artefact's bytes.

    Attributes:
        name: for people.
        num_bytes: that are loaded.
    """

    name: str
    num_bytes: int | float


@dataclass(frozen=True)
class LoadTime:
    """One platform's row.

    Attributes:
        platform: which.
        cache_sec, state_sec: at the exact sizes.
    """

    platform: Platform
    cache_sec: float
    state_sec: float

    @property
    def ratio(self) -> float:
        """Cache over state."""
        return self.cache_sec / self.state_sec


def load_times(paper: Paper = PAPER, tokens: int | None = None) -> list[LoadTime]:
    """Seconds on every platform, for a chunk of so many tokens (512 when None)."""
    cache = cache_bytes(paper.llama, paper.edge.chunk_tokens if tokens is None else tokens)
    state = state_bytes(paper.model)
    return [
        LoadTime(platform, load_sec(cache, platform.bytes_per_sec), load_sec(state, platform.bytes_per_sec))
        for platform in paper.platforms
    ]


def readings(num_bytes: int, unit_bytes: int) -> tuple[LoadReading, ...]:
    """An artefact's bytes as they are, and as decimal units: of its KB, and of its MB where it has whole ones.

    Args:
        num_bytes: exactly.
        unit_bytes: the binary unit that the paper names it in.
    """
    found = [LoadReading("the exact bytes", num_bytes)]
    if unit_bytes == MB:
        found.append(LoadReading("1 MB = 1,000,000 B", num_bytes / MB * 1e6))
    found.append(LoadReading("1 KB = 1,000 B", num_bytes / KB * 1e3))
    return tuple(found)


def load_claims(paper: Paper = PAPER) -> list[Claim]:
    """Both artefacts on every platform, their ratio, and the remark on units."""
    cache, state = cache_bytes(paper.llama, paper.edge.chunk_tokens), state_bytes(paper.model)
    rows = []
    for row in load_times(paper):
        place = row.platform
        rows += [
            _cell(place, "Llama KV of 512 tokens", place.cache_printed, readings(cache, MB)),
            _cell(place, "PRECOG state", place.state_printed, readings(state, KB)),
            claim("Table 5", f"{place.name}: ratio", "85×", row.ratio, "×"),
        ]
    off = 100 * (MB / 1e6 - 1)
    why = f"{100 * (KB / 1e3 - 1):.1f} % for KB, {off:.1f} % for MB; 7.4 % only for GB, which no cell of it has."
    return [*rows, claim("Appendix D.5", "binary against decimal units", "~7 %", off, "%", why)]


def _cell(place: Platform, what: str, printed: str, ways: tuple[LoadReading, ...]) -> Claim:
    unit = printed.split()[1]
    scale = {"ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    exact, *decimal = ways
    seconds = load_sec(exact.num_bytes, place.bytes_per_sec)
    why = ""
    if not comes_out(seconds / scale, printed):
        others = [(way, load_sec(way.num_bytes, place.bytes_per_sec) / scale) for way in decimal]
        fitting = [way.name for way, value in others if comes_out(value, printed)]
        if fitting:
            why = f"The printed number takes {fitting[0]}."
        else:
            closest = min(others, key=lambda pair: abs(pair[1] - float(printed.split()[0])))
            why = f"No reading gives it; with {closest[0].name} it is {closest[1]:.3f} {unit}, which was cut off."
    return claim("Table 5", f"{place.name}: {what}", printed, seconds, unit, why)
