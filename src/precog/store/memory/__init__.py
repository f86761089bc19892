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
from precog.store.memory.tables import MemoryFolder

__all__ = [
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
