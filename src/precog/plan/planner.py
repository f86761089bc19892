"""Three ways to bring texts into a model: inject stored states, resume from one and read the rest, or read them all.

A state of 192 KB always beats reading on a CPU. One of 99 MiB does not on a fast GPU: then the same text is there
sooner by reading it. The ways compared here lead to the same context, so that only their time matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from precog.errors import StateError
from precog.plan.speed import ReadSpeed, Speed

WAYS = ("inject", "resume", "in-context")


@dataclass(frozen=True)
class Need:
    """One text that an answer needs.

    Attributes:
        num_tokens: of its reading.
        state_bytes: of its encoded state; 0 where the state is not stored any more.
        record_bytes: read from the disk to get it.
    """

    num_tokens: int
    state_bytes: int
    record_bytes: int

    @property
    def is_stored(self) -> bool:
        """Whether there is a state to inject."""
        return self.state_bytes > 0


@dataclass(frozen=True)
class Plan:
    """What is done, and why.

    Attributes:
        way: ``inject``, ``resume`` or ``in-context``.
        reason: one line for people.
        estimates_sec: of every way that was open, until the question can be read.
    """

    way: str
    reason: str
    estimates_sec: dict[str, float]

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {"chosen": self.way, "why": self.reason, "estimates_sec": self.estimates_sec}


def choose(needs: Sequence[Need], speed: Speed, disk: ReadSpeed, ways: Sequence[str] = WAYS) -> Plan:
    """The quickest of some ways.

    Args:
        needs: the texts, the best one first.
        speed: of the model on this machine.
        disk: of the folder that holds the states.
        ways: those that lead to the context that was asked for. ``inject`` reads again what is not stored;
            ``resume`` injects the longest text, which must be stored, and reads the others.

    Raises:
        StateError: there is no text, or no way is open.
    """
    if not needs:
        raise StateError("a plan needs a text", expected="at least one")
    estimates = {way: sec for way in ways if (sec := _estimate(way, needs, speed, disk)) is not None}
    if not estimates:
        raise StateError("no way to bring these texts in", given=", ".join(ways), hint="use --mode in-context")
    way = min(estimates, key=lambda name: (estimates[name], WAYS.index(name)))
    return Plan(way, _reason(way, needs, estimates), estimates)


def _estimate(way: str, needs: Sequence[Need], speed: Speed, disk: ReadSpeed) -> float | None:
    if way == "inject":
        if not any(need.is_stored for need in needs):
            return None
        return sum(
            _load_sec(need, speed, disk) if need.is_stored else speed.prefill_sec(need.num_tokens) for need in needs
        )
    if way == "resume":
        longest = max(needs, key=lambda need: need.num_tokens)
        if not longest.is_stored or len(needs) == 1:
            return None
        rest = sum(need.num_tokens for need in needs) - longest.num_tokens
        return _load_sec(longest, speed, disk) + speed.prefill_sec(rest)
    return speed.prefill_sec(sum(need.num_tokens for need in needs))


def _load_sec(need: Need, speed: Speed, disk: ReadSpeed) -> float:
    return disk.read_sec(need.record_bytes) + need.state_bytes / speed.open_bytes_per_sec


def _reason(way: str, needs: Sequence[Need], estimates: dict[str, float]) -> str:
    tokens = sum(need.num_tokens for need in needs)
    size = sum(need.record_bytes for need in needs if need.is_stored)
    doing = {
        "inject": f"loading {size / 1e6:.3g} MB of states",
        "resume": "loading the longest text's state and reading the others",
        "in-context": f"reading {tokens} tokens",
    }
    if not any(need.is_stored for need in needs):
        return f"no state of {'these texts' if len(needs) > 1 else 'this text'} is stored: {doing[way]}"
    others = [f"{doing[name]} {1e3 * sec:.3g} ms" for name, sec in estimates.items() if name != way]
    return f"{doing[way]} takes about {1e3 * estimates[way]:.3g} ms" + (f", {', '.join(others)}" if others else "")
