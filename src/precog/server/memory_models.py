"""What requests about memories say, and what they are answered: as ``precog memory … --json`` prints it."""

from typing import Annotated, Literal

from fastapi import Depends
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from precog.memory.utterance import has_half_pairs
from precog.server.depends import ReaderFor, ServicesDep, WriterFor
from precog.server.user_memory import UserMemory

MAX_ID = (1 << 63) - 1
DepositId = Annotated[int, Field(ge=1, le=MAX_ID, description="Number of a deposit.")]


def _carried(text: str) -> str:
    if has_half_pairs(text):
        raise ValueError("half a surrogate pair is no character")
    return text


Words = Annotated[str, AfterValidator(_carried)]
"""Text that an encoding can carry."""


async def _to_read(services: ServicesDep, principal: ReaderFor) -> UserMemory:
    return UserMemory(services, principal)


async def _to_write(services: ServicesDep, principal: WriterFor) -> UserMemory:
    return UserMemory(services, principal)


ReadMemory = Annotated[UserMemory, Depends(_to_read)]
WriteMemory = Annotated[UserMemory, Depends(_to_write)]


class Asked(BaseModel):
    """A request of our own: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Damage(BaseModel):
    """What was found damaged, and left out."""

    damaged: list[int] = Field(description="Damaged deposits.")
    notes: list[str] = Field(description="A line for each kind of damage, with what to do.")


class Said(Asked):
    """Words that were said."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "I moved to Lisbon in May.", "speaker": "Ana", "place": "Porto"}]}
    )
    text: Words = Field(min_length=1, description="The words; long ones are cut into several deposits.")
    time: Words | int | float | None = Field(
        None, description="When: ISO 8601, or words, or seconds since 1970; now by default."
    )
    speaker: Words | None = Field(None, description="Who said it.")
    place: Words | None = Field(None, description="Where.")
    importance: float = Field(0.0, description="Of two states the less important expires first.")


class Expired(BaseModel):
    """States that were let go to keep the budget; their texts stay."""

    ids: list[int]
    bytes: int


class Remembered(BaseModel):
    """What became of what was said; it is on the disk."""

    ids: list[int] = Field(description="Of the deposits in order; a duplicate has the id of what it repeats.")
    duplicates: int
    expired: Expired
    groups: list[list[str]] = Field(description="Domain and sub-cluster of each.")
    notes: list[str] = Field(default_factory=list, description="What of a file was not read as it stands.")


class Deposit(BaseModel):
    """One thing that was said."""

    id: int
    text: str
    time: str | None
    speaker: str | None
    place: str | None
    domain: str
    subcluster: str
    probability: float
    num_tokens: int
    num_states: int
    superseded_by: int | None


class WholeDeposit(Deposit):
    """The same with what the model reads before it, and where its states are."""

    header: str
    positions: list[int]


class Deposits(Damage):
    """Deposits, the newest last."""

    deposits: list[Deposit]
    total: int = Field(description="How many fit, on this page or not.")
    older: int | None = Field(description="``before`` of the page before this one; null on the first deposits.")


class SubCluster(BaseModel):
    """How much a sub-cluster holds."""

    domain: str
    subcluster: str
    num_deposits: int
    num_tokens: int


class Stats(Damage):
    """How much a memory holds."""

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
    subclusters: list[SubCluster]
    settings: dict[str, str | int | float]


class Recall(Asked):
    """A question to the memory."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "Where does Ana live?", "top_k": 3}]})
    query: Words = Field(min_length=1)
    top_k: int = Field(5, ge=1, le=1000, description="Most deposits.")
    probes: int | None = Field(
        None, ge=0, le=MAX_ID, description="Sub-clusters to look in; 0 for all; the memory's own by default."
    )


class Evidence(BaseModel):
    """A deposit that was found."""

    id: int
    text: str
    time: str | None
    speaker: str | None
    place: str | None
    domain: str
    subcluster: str
    score: float


class Recalled(Damage):
    """What a question brought back, the best first."""

    evidence: list[Evidence]
    fraction_searched: float
    groups: list[list[str]]
    timings_sec: dict[str, float]


class Supersede(Asked):
    """What no longer holds, and what holds instead."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"old": 3, "new": 17}]})
    old: DepositId
    new: DepositId


class Superseded(BaseModel):
    """What is history now."""

    superseded: int
    by: int


class Forget(Asked):
    """Which deposits go; conditions are joined by *and*."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"ids": [4, 5], "proof": True}, {"speaker": "Ben"}, {"all": True}]}
    )
    ids: list[DepositId] = Field(default_factory=list, max_length=10_000)
    query: Words | None = Field(None, description="What says this, in these or other words.")
    top_k: int = Field(1, ge=1, le=1000, description="How many deposits the query means at most.")
    before: Words | None = Field(None, description="Said before this time.")
    after: Words | None = Field(None, description="Said at this time or later.")
    speaker: Words | None = Field(None, description="Said by.")
    everything: bool = Field(False, alias="all", description="All deposits; alone.")
    proof: bool = Field(False, description="Search every byte of the memory for what was forgotten.")


class Forgotten(Damage):
    """What is gone, and what the search for it found."""

    forgotten: list[int]
    hashes: list[str]
    rebuilt: list[str]
    dropped: list[str]
    restored: list[int]
    files_searched: int
    bytes_searched: int
    searched_for: int
    hits: int
    hit_files: list[str]
    outside: list[str]
    index_left: list[str]
    unerased: list[str]
    complete: bool = Field(description="Whether nothing was found, and nothing is known to be left.")
    responses: int = Field(description="Stored responses that had read the memory, and are gone, too.")


class Purged(BaseModel):
    """What was removed."""

    purged: Literal[True]
    files: int
    bytes: int
    outside: list[str]
    kept: list[str]
    leftovers: list[str]
    responses: int = Field(description="Stored responses that had read the memory, and are gone, too.")


class Panel(BaseModel):
    """One domain, laid out on a plane."""

    domain: str
    points: list[tuple[float, float]]
    subclusters: list[str | None] = Field(description="Of each point; null where none holds it.")
    emergent: dict[str, list[int]] = Field(description="Groups that emerge ▸ rows of their points.")
    note: str
    ids: list[int] = Field(description="Number of the deposit that each point is.")


class Map(Damage):
    """What a memory holds, by meaning."""

    deposits: dict[str, int] = Field(description="Of each domain.")
    emergent: list[str]
    panels: list[Panel]
