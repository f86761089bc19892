"""The start of a session, after a short history and after a long one: it must take as long, and read as much.

A start is all from the folder to an injected state: the memory opened, the opening utterance keyed and routed, the
semantic state of its sub-cluster read, checked and put into the model. Model and encoder are open, because loading
them takes as long whatever the memory holds, and would hide what grows.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.bench.filling import temporary_room
from precog.bench.harness import Rounds, interleave
from precog.bench.history import OnDeposits, create_memory, fill_memory
from precog.bench.machine import Machine
from precog.bench.model import subject_of
from precog.bench.raw import bytes_read_by
from precog.bench.result import Ratio, Result, Value, finite
from precog.bench.sizes import check_sizes
from precog.bench.watched import WatchedEncoder
from precog.encoders import Encoder, load_encoder
from precog.errors import UsageError
from precog.memory.opened import OpenMemory
from precog.records import ModelChoice
from precog.session import Session
from precog.store.memory import Group, MemoryStore

TARGET = 1.2
OPENING = "My sister came to visit us on Sunday and brought the children."
_SIDES = ("few", "many")


@dataclass(frozen=True)
class SessionSettings:
    """Sizes of the measurement.

    Attributes:
        deposits: of the short history and of the long one.
        repeats: starts with each.
        warm_up: starts that do not count.
    """

    deposits: tuple[int, int] = (10, 100_000)
    repeats: int = 300
    warm_up: int = 20

    def __post_init__(self) -> None:
        check_sizes("session", {"--deposits": min(self.deposits), "repeats": self.repeats})


QUICK = SessionSettings(deposits=(10, 300), repeats=5, warm_up=1)


def sized(*, quick: bool, deposits: list[int] | None) -> SessionSettings:
    """The sizes that were asked for; the usual ones where nothing was.

    Raises:
        UsageError: not two numbers of deposits.
    """
    settings = QUICK if quick else SessionSettings()
    if not deposits:
        return settings
    if len(deposits) != 2:
        given = ", ".join(map(str, deposits))
        raise UsageError("--deposits is given twice: a short history and a long one", given=given)
    return replace(settings, deposits=(min(deposits), max(deposits)))


@dataclass(frozen=True)
class _Read:
    """What one start reads: bytes of the semantic state, of the prototypes, and of all files; None if nobody counts."""

    state_bytes: int
    num_deposits: int
    prototype_bytes: int
    file_bytes: int | None


def bench_session(
    backbone: Backbone,
    settings: SessionSettings | None = None,
    *,
    encoder: str | Encoder | None = None,
    folder: Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
    on_deposits: OnDeposits = lambda done, total: None,
) -> Result:
    """Measures on two temporary memories of random states.

    Args:
        backbone: the model whose states they hold.
        settings: sizes.
        encoder: its name, or open already.
        folder: where the memories are made.
        quick: said in the result.
        say: told what is being done.
        on_deposits: told how far the long one is.

    Raises:
        StorageError: there is no room.
    """
    settings = settings or SessionSettings()
    keys = load_encoder(encoder)
    machine = Machine.here()
    with temporary_room(folder) as room:
        homes = {side: room / side for side in _SIDES}
        fill_sec = []
        for home, count in zip(homes.values(), settings.deposits, strict=True):
            say(f"writing {count:,} deposits")
            begun = time.perf_counter()
            with create_memory(home, backbone, keys) as memory:
                first = _first_group(memory)
                fill_memory(memory, count, first, on_deposits=on_deposits)
            fill_sec.append(time.perf_counter() - begun)
        starts = _Starts(backbone, WatchedEncoder(keys), homes)
        say("starting sessions")
        rounds = interleave([starts.side(side) for side in _SIDES], repeats=settings.repeats, warm_up=settings.warm_up)
        read = {side: starts.read(side) for side in _SIDES}
    return Result(
        name="session",
        values=_values(settings, rounds, read, fill_sec[1]),
        ratios=_ratios(rounds, read),
        ceiling={"encode_query_sec": rounds["few_encode"].median},
        machine=machine,
        subject=subject_of(backbone),
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=(
            "start = open the memory, key and route the opening utterance, read and inject the semantic state",
            "model and encoder are open before; start_without_encoder leaves out the encoder, which sees no memory",
            "bytes of files: what the process asked the system for during one start (rchar of /proc/self/io): marker, "
            "pages of the database, nothing else",
        ),
    )


class _Starts:
    """Starts of sessions with one of several memories."""

    def __init__(self, backbone: Backbone, encoder: WatchedEncoder, homes: Mapping[str, Path]) -> None:
        self._choice = ModelChoice(loaded=backbone)
        self._backbone = backbone
        self._encoder = encoder
        self._homes = homes

    def side(self, name: str) -> Callable[[int], Mapping[str, float]]:
        def measure(_: int) -> dict[str, float]:
            self._encoder.query_sec = 0.0
            started = time.perf_counter()
            session = Session(self._homes[name], model=self._choice, encoder=self._encoder)
            opened = time.perf_counter()
            session.begin(OPENING)
            assert session.semantic is not None
            begun = time.perf_counter()
            self._backbone.open([session.semantic])
            ended = time.perf_counter()
            session.close()
            encode = self._encoder.query_sec
            return {
                f"{name}_start": ended - started,
                f"{name}_start_without_encoder": ended - started - encode,
                f"{name}_open": opened - started,
                f"{name}_encode": encode,
                f"{name}_route_and_read": begun - opened - encode,
                f"{name}_inject": ended - begun,
            }

        return measure

    def read(self, name: str) -> _Read:
        """What one start reads, counted apart from the timing."""
        sessions = []

        def start() -> None:
            session = Session(self._homes[name], model=self._choice, encoder=self._encoder)
            session.begin(OPENING)
            sessions.append(session)

        file_bytes = bytes_read_by(start)
        (session,) = sessions
        with session, MemoryStore.open(self._homes[name]) as store:
            found, prototypes = session.start, store.prototypes()
            assert found is not None
            assert prototypes is not None
            prototype_bytes = len(prototypes.text.encode()) + len(str(prototypes.members))
            return _Read(found.bytes_read, found.num_deposits, prototype_bytes, file_bytes)


def _first_group(memory: OpenMemory) -> Group:
    """The sub-cluster that the opening utterance is routed to, so that there is a state to begin with."""
    [found] = memory.settings.route(memory.encoder.encode_query(OPENING)[None], memory.prototypes)
    return found.domain, found.subcluster


def _values(settings: SessionSettings, rounds: Rounds, read: Mapping[str, _Read], fill_sec: float) -> dict[str, Value]:
    few, many = settings.deposits
    values: dict[str, Value] = {"deposits_few": few, "deposits_many": many, "write_many_sec": fill_sec}
    for part in ("start", "start_without_encoder", "open", "encode", "route_and_read", "inject"):
        for side in _SIDES:
            values[f"{side}_{part}"] = finite(rounds[f"{side}_{part}"].to_json())
    for side in _SIDES:
        values[f"{side}_state_read_bytes"] = read[side].state_bytes
        values[f"{side}_deposits_in_state"] = read[side].num_deposits
        values[f"{side}_prototypes_read_bytes"] = read[side].prototype_bytes
        values[f"{side}_files_read_bytes"] = read[side].file_bytes
    return values


def _ratios(rounds: Rounds, read: Mapping[str, _Read]) -> dict[str, Ratio]:
    few, many = (read[side] for side in _SIDES)

    def over(part: str) -> float:
        medians = [statistics.median(rounds[f"{side}_{part}"].seconds) for side in reversed(_SIDES)]
        return medians[0] / medians[1]

    found = {
        "start": Ratio(over("start"), TARGET, True, "start after the long history / after the short one"),
        "start_without_encoder": Ratio(
            over("start_without_encoder"), TARGET, True, "the same without the sentence encoder"
        ),
        "state_bytes": Ratio(many.state_bytes / few.state_bytes, 1.0, True, "bytes of states read, long / short"),
    }
    if few.file_bytes and many.file_bytes:
        found["file_bytes"] = Ratio(many.file_bytes / few.file_bytes, TARGET, True, "bytes of files read, long / short")
    return found
