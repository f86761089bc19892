"""Every deposit of a memory routed anew, when its prototypes are others: groups, states and semantic states follow.

Afterwards nothing tells by which prototypes a deposit was routed before: its states lie where the dial of its group
says, and the semantic states are folded from what the groups hold now.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from precog.memory.consolidate import refold
from precog.memory.deposit import keep_states, states_along
from precog.memory.domains import OTHERS
from precog.memory.expiry import keep_budget
from precog.memory.keyed import Keyed
from precog.memory.opened import OpenMemory
from precog.memory.prototypes import Prototypes, mean_key
from precog.store.memory import Deposit, Group, MemoryBatch, MemoryStore


def keyed_deposits(store: MemoryStore, deposits: Sequence[Deposit]) -> Keyed:
    """Deposits as clustering sees them, in their order; those whose keys are damaged are left out."""
    found = store.iter_keys([entry.id for entry in deposits], only_sound=True)
    keys = {entry.deposit_id: mean_key(entry.keys) for entry in found}
    deposits = [entry for entry in deposits if entry.id in keys]
    return Keyed(
        tuple(entry.id for entry in deposits),
        np.stack([keys[entry.id] for entry in deposits]) if deposits else np.zeros((0, store.key_dim), np.float32),
        tuple(entry.info.text for entry in deposits),
        tuple(None if entry.info.time is None else entry.info.time.date() for entry in deposits),
    )


def reroute(memory: OpenMemory, batch: MemoryBatch, prototypes: Prototypes) -> set[Group]:
    """Routes every deposit by these prototypes; returns the groups that lost or got one, without semantic states."""
    store, settings = memory.store, memory.settings
    deposits = list(store.deposits(only_sound=True))
    changed: set[Group] = set()
    is_more = False
    keyed = keyed_deposits(store, deposits)
    routes = dict(zip(keyed.ids, settings.route(keyed.keys, prototypes), strict=True))
    for deposit in deposits:
        if deposit.id not in routes:  # its keys are damaged: it stays where it is
            continue
        routed = routes[deposit.id]
        info = deposit.info
        if (*info.group, info.probability) != (routed.domain, routed.subcluster, routed.probability):
            moved = batch.move_deposits([deposit.id], routed.domain, routed.subcluster, routed.probability)
            changed |= set(moved.groups)
        if deposit.num_states and settings.dial_a != settings.dial_b:
            is_more |= _redial(memory, batch, deposit, (routed.domain, routed.subcluster), prototypes)
    if is_more:
        keep_budget(store, batch, settings.budget_bytes, frozenset())
    return changed


def _redial(memory: OpenMemory, batch: MemoryBatch, deposit: Deposit, group: Group, prototypes: Prototypes) -> bool:
    """Keeps a deposit's states where the dial of its group says; returns whether some were made for it."""
    dial, last = memory.settings.dial_in(group, prototypes), deposit.info.num_tokens
    kept, wanted = set(memory.store.states_of(deposit.id)), set(dial.positions(last))
    if kept == wanted:
        return False
    batch.drop_states(deposit.id, keep=[last])
    if len(wanted) > 1:
        tokens = memory.backbone.tokenizer.encode(deposit.info.header + deposit.info.text)
        keep_states(memory, batch, deposit.id, tokens, states_along(memory, dial, tokens))
    return len(wanted) > 1


def refold_groups(
    memory: OpenMemory, batch: MemoryBatch, groups: Iterable[Group], prototypes: Prototypes
) -> tuple[list[Group], list[str]]:
    """Folds semantic states anew; returns the sub-clusters that have one now, and what is gone, for people.

    Sub-clusters that the prototypes know no more are told without their names: those were made of what was said.
    """
    known = {(entry.domain, entry.name) for entry in prototypes.subclusters}
    rebuilt: list[Group] = []
    dropped: list[str] = []
    former: Counter[str] = Counter()
    for group in sorted(set(groups)):
        domain, name = group
        if name == OTHERS:
            continue
        left = memory.store.deposits(domain=domain, subcluster=name, only_sound=True)
        semantic = refold(
            memory.store, left, group, memory.settings.alpha, memory.backbone, memory.reader, memory.reread.add
        )
        if semantic is not None:
            batch.put_semantic(semantic)
            rebuilt.append(group)
        elif group in known:
            dropped.append(f"semantic state of {domain} ▸ {name}")
        else:
            former[domain] += 1
    dropped += [f"semantic states of former sub-clusters of {domain}: {count}" for domain, count in former.items()]
    return rebuilt, dropped
