"""What the catalogue of a memory says, as frozen data. All times ``…_at`` and ``…_utc`` are seconds since 1970, UTC."""

import datetime
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

Group = tuple[str, str]  # domain, sub-cluster


@dataclass(frozen=True)
class DepositInfo:
    """A chunk of a conversation as it is deposited.

    Attributes:
        uid: 32 bytes that name what was said, when and by whom; a memory holds each once.
        text: what was said; it never expires.
        header: time, speaker and place as the model read them before the text.
        key_text: what the sentence encoder saw; the index of words sees it beside that of the turn before.
        num_tokens: of header and text, so the position of the last state.
        domain: it was routed to.
        subcluster: of that domain.
        probability: of the route, in [0, 1].
        importance: the larger, the longer its states are kept.
        created_at: when it was deposited, UTC seconds.
        time: when it was said, with its zone.
        speaker: who said it.
        place: where.
        reference: its name in the transcript it came from.
        details: JSON-able extras.
    """

    uid: bytes
    text: str
    header: str
    key_text: str
    num_tokens: int
    domain: str
    subcluster: str
    probability: float
    importance: float
    created_at: float
    time: datetime.datetime | None = None
    speaker: str | None = None
    place: str | None = None
    reference: str | None = None
    details: dict[str, object] = field(default_factory=dict)

    @property
    def group(self) -> Group:
        """Domain and sub-cluster."""
        return self.domain, self.subcluster

    @property
    def time_utc(self) -> float | None:
        """When it was said, UTC seconds."""
        return None if self.time is None else self.time.timestamp()


@dataclass(frozen=True)
class Deposit:
    """A deposit and what has become of it.

    Attributes:
        id: never used twice, rising in the order of depositing.
        info: what was deposited, and where it is routed to now.
        num_accesses: how often it has been recalled.
        accessed_at: when last, or when it was deposited.
        superseded_by: id of the deposit that says something newer in its place.
        superseded_at: since when.
        num_states: that have not expired.
    """

    id: int
    info: DepositInfo
    num_accesses: int = 0
    accessed_at: float = 0.0
    superseded_by: int | None = None
    superseded_at: float | None = None
    num_states: int = 0


@dataclass(frozen=True)
class DepositKeys:
    """The keys of one deposit, one row per window of the sentence encoder, unit norm."""

    deposit_id: int
    keys: Float32[np.ndarray, "_ E"]


@dataclass(frozen=True, eq=False)
class Semantic:
    """The semantic state of a sub-cluster in FP32: the moving average of its members' last states (Section 5.3).

    Attributes:
        domain: of the sub-cluster.
        subcluster: its name.
        alpha: weight of a new deposit.
        num_deposits: that are in it.
        last_deposit_id: the newest of them.
        num_tokens: they have read together.
        recurrent: reals of all layers, in a row.
        decay_time: τ of all layers and groups, in a row.
    """

    domain: str
    subcluster: str
    alpha: float
    num_deposits: int
    last_deposit_id: int
    num_tokens: int
    recurrent: Float32[np.ndarray, " reals"]
    decay_time: Float32[np.ndarray, " tau"]

    @property
    def group(self) -> Group:
        """Domain and sub-cluster."""
        return self.domain, self.subcluster


@dataclass(frozen=True)
class StoredPrototypes:
    """The prototypes of a memory, as text that this room does not read.

    Attributes:
        text: JSON.
        members: ids of the deposits that each prototype was fitted on.
    """

    text: str
    members: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Emergent:
    """A grouping that was found among deposits that no sub-cluster wanted.

    Attributes:
        name: of the grouping, unique in the memory.
        domain: its deposits were routed to.
        members: ids of its deposits, rising.
        promoted: whether it has become a sub-cluster.
        details: JSON-able extras.
    """

    name: str
    domain: str
    members: tuple[int, ...]
    promoted: bool = False
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupSize:
    """How much a sub-cluster holds."""

    domain: str
    subcluster: str
    num_deposits: int
    num_tokens: int


@dataclass(frozen=True)
class KeptStates:
    """The states a deposit still has, and what speaks for keeping them.

    Attributes:
        deposit_id: whose they are.
        num_states: how many.
        num_bytes: of their records.
        accessed_at: when it was last recalled, or deposited.
        num_accesses: how often it has been recalled.
        importance: as deposited.
        time_utc: when it was said.
        domain: it is routed to.
        subcluster: of that domain.
        is_superseded: whether another deposit says something newer.
    """

    deposit_id: int
    num_states: int
    num_bytes: int
    accessed_at: float
    num_accesses: int
    importance: float
    time_utc: float | None
    domain: str
    subcluster: str
    is_superseded: bool


@dataclass(frozen=True)
class Dropped:
    """What was dropped because it came, in part, from deposits that were deleted or moved: make it anew.

    Attributes:
        groups: sub-clusters that lost or got a member; their semantic states are gone.
        prototypes: whether the prototypes are gone, because one was fitted on such a deposit.
        emergent: groupings that lost a member; they are gone when it was their last.
        state_bytes: that the deleted states took.
        restored: deposits that hold again, because all that was newer is gone.
    """

    groups: tuple[Group, ...]
    prototypes: bool = False
    emergent: tuple[str, ...] = ()
    state_bytes: int = 0
    restored: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemorySize:
    """Counts and bytes of a memory."""

    num_deposits: int
    num_superseded: int
    num_subclusters: int
    num_states: int
    num_semantic: int
    num_tokens: int
    state_bytes: int
    semantic_bytes: int
    key_bytes: int
    text_bytes: int
    disk_bytes: int
