"""Something newer holds: the old deposit stays as history, and holds again when all that is newer is forgotten."""

import time

from precog.errors import InputError
from precog.store.memory import Deposit, MemoryStore


def supersede(store: MemoryStore, old: int, new: int) -> None:
    """Let one deposit hold instead of another.

    Args:
        store: open to write.
        old: id of what no longer holds.
        new: id of what holds instead.

    Raises:
        InputError: one of them is not there, both are the same, or the old one is history already: then the chain of
            what has superseded it is named.
        StorageError: the disk refuses.
    """
    found = {number: store.deposit(number) for number in (old, new)}
    for number, deposit in found.items():
        if deposit is None:
            raise InputError("there is no such deposit", given=number, hint="see `precog memory list`")
    if old == new:
        raise InputError("a deposit cannot hold instead of itself", given=old, expected="two deposits")
    if old in (above := _chain(store, found[new])):
        links = " ▸ ".join(map(str, above[: above.index(old) + 1]))
        message = "a deposit cannot hold instead of what has superseded it"
        raise InputError(message, given=f"{links} (each superseded by the next)", expected="something newer")
    chain = _chain(store, found[old])
    if len(chain) > 1:
        links = " ▸ ".join(map(str, chain))
        raise InputError(
            f"deposit {old} is superseded by {chain[1]} already",
            given=f"{links} (each superseded by the next)",
            expected="a deposit that holds",
            hint=f"{chain[-1]} is the one that holds",
        )
    with store.batch() as batch:
        batch.supersede(old, new, at=time.time())


def _chain(store: MemoryStore, deposit: Deposit | None) -> list[int]:
    """A deposit and what has superseded it, one after the other, up to what holds."""
    chain: list[int] = []
    while deposit is not None and deposit.id not in chain:
        chain.append(deposit.id)
        deposit = None if deposit.superseded_by is None else store.deposit(deposit.superseded_by)
    return chain
