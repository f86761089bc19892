"""The byte budget of a memory: states expire, texts never do (paper Section 5.2)."""

from dataclasses import dataclass

from precog.store.memory import KeptStates, MemoryBatch, MemoryStore


@dataclass(frozen=True)
class Expired:
    """What was let go to keep the budget.

    Attributes:
        deposit_ids: whose states expired, in that order.
        num_bytes: given back.
        kept_bytes: that the states of deposits take now.
    """

    deposit_ids: tuple[int, ...]
    num_bytes: int
    kept_bytes: int


def keep_budget(store: MemoryStore, batch: MemoryBatch, budget_bytes: int, newest: frozenset[int]) -> Expired:
    """Lets states expire until the rest fits: superseded ones first, then the least important and least recalled.

    Args:
        store: the memory.
        batch: the commit unit it happens in.
        budget_bytes: most bytes of the records of deposits.
        newest: deposits of this unit; they go last.
    """
    total = store.state_bytes
    if total <= budget_bytes:
        return Expired((), 0, total)
    gone: list[int] = []
    freed = 0
    for entry in sorted(store.coldest(), key=lambda entry: _warmth(entry, newest)):
        if total - freed <= budget_bytes:
            break
        freed += batch.drop_states(entry.deposit_id)
        gone.append(entry.deposit_id)
    return Expired(tuple(gone), freed, total - freed)


def _warmth(entry: KeptStates, newest: frozenset[int]) -> tuple[bool, bool, float, int, float, int]:
    recency = (entry.accessed_at, entry.deposit_id)
    return (entry.deposit_id in newest, not entry.is_superseded, entry.importance, entry.num_accesses, *recency)
