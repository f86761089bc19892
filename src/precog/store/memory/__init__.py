"""A user's memory on flash: what was said, in deposits, and the states that were kept of it."""

from precog.store.memory.batch import MemoryBatch
from precog.store.memory.rows import (
    Deposit,
    DepositInfo,
    DepositKeys,
    Dropped,
    Emergent,
    Group,
    GroupSize,
    KeptStates,
    MemorySize,
    Semantic,
    StoredPrototypes,
)
from precog.store.memory.store import MemoryStore
from precog.store.memory.tables import FORGET, KEYS_ANEW, PROTOTYPES_ANEW, STATES_ANEW, MemoryFolder

__all__ = [
    "FORGET",
    "KEYS_ANEW",
    "PROTOTYPES_ANEW",
    "STATES_ANEW",
    "Deposit",
    "DepositInfo",
    "DepositKeys",
    "Dropped",
    "Emergent",
    "Group",
    "GroupSize",
    "KeptStates",
    "MemoryBatch",
    "MemoryFolder",
    "MemorySize",
    "MemoryStore",
    "Semantic",
    "StoredPrototypes",
]
