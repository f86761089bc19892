"""Energy that the kernel counts of the processor (RAPL): joules over a stretch of work, or why there are none.

Each package has a folder with a counter of microjoules that begins again at its range. Parts of a package, the
whole platform, and a package by another interface, are counted again in folders of their own, which are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Energy:
    """What was counted.

    Attributes:
        joules: of all packages; None where nothing was counted.
        why: where from, or why not.
    """

    joules: float | None
    why: str


@dataclass(frozen=True)
class _Counter:
    path: Path
    range_uj: int


def measure_energy(work: Callable[[], None], folder: Path = POWERCAP) -> Energy:
    """Run some work and count what it took.

    A counter begins again after minutes at full power, so that the work must be shorter: one new beginning is seen.

    Args:
        work: what is run, in any case.
        folder: of the kernel's counters.
    """
    counters, why = _counters(folder)
    before = _read(counters)
    work()
    after = _read(counters)
    if not counters or before is None or after is None:
        return Energy(None, why)
    spent = [
        (end - start) % (counter.range_uj + 1)  # the counter goes up to its range, and on from 0
        for counter, start, end in zip(counters, before, after, strict=True)
    ]
    if not sum(spent):
        return Energy(None, "the kernel's counters of energy stand still")
    return Energy(sum(spent) / 1e6, f"counted by the kernel, {len(counters)} processor package(s)")


def _counters(folder: Path) -> tuple[list[_Counter], str]:
    found = []
    try:
        zones = sorted(path for path in folder.iterdir() if path.name.startswith("intel-rapl:"))
    except OSError:
        return [], "the kernel offers no counters of energy (no RAPL)"
    for zone in zones:
        try:
            if not (zone / "name").read_text(encoding="ascii").startswith("package"):
                continue
            range_uj = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
            int((zone / "energy_uj").read_text(encoding="ascii"))
        except PermissionError:
            return [], "the kernel's counters of energy may not be read by this user"
        except (OSError, ValueError):
            return [], "the kernel's counters of energy cannot be read"
        found.append(_Counter(zone / "energy_uj", range_uj))
    return found, "the kernel cannot read its counters of energy" if found else "the kernel counts no package's energy"


def _read(counters: list[_Counter]) -> list[int] | None:
    try:
        return [int(counter.path.read_text(encoding="ascii")) for counter in counters]
    except (OSError, ValueError):
        return None
