"""Semantic states: the moving average of the last states of a sub-cluster's deposits (paper Eq. 7, ERRATA 14).

What is averaged are states as records give them back. So it does not matter whether a state is still kept or has
expired and is read from its text again, and a sub-cluster that is folded anew from what is left of it is bit-equal to
one that never saw what was forgotten.
"""

from collections.abc import Callable, Iterable

import numpy as np

from precog.backbones.protocol import Backbone
from precog.errors import DamagedCorpusError, DamagedStateError
from precog.records import StateReader
from precog.state import State, StateSpec, blend
from precog.store import Record
from precog.store.memory import Deposit, MemoryStore, Semantic


def folded(
    before: Semantic | None, deposit_id: int, group: tuple[str, str], state: State, alpha: float, spec: StateSpec
) -> Semantic:
    """One more deposit in a semantic state: s ← h for the first, then s ← (1 - α) s + α h, in FP32.

    The last inputs of a convolution, where the model keeps them, are those of the newest deposit.

    Raises:
        StateError: the model's states cannot be averaged.
    """
    import torch

    recurrent, tau = state.recurrent.numpy().ravel(), state.decay_time.numpy().ravel()
    domain, subcluster = group
    if before is None:
        return Semantic(domain, subcluster, alpha, 1, deposit_id, state.num_tokens, recurrent, tau)
    old, new = np.float32(1 - alpha), np.float32(alpha)
    both = torch.from_numpy(np.stack([before.recurrent, recurrent])).view(2, spec.layers, -1).transpose(0, 1)
    return Semantic(
        domain,
        subcluster,
        alpha,
        before.num_deposits + 1,
        deposit_id,
        before.num_tokens + state.num_tokens,
        blend(both, (1 - alpha, alpha), spec, dominant=1).numpy().ravel(),
        old * before.decay_time + new * tau,
    )


def semantic_state(semantic: Semantic, backbone: Backbone, encoding_dtype: str) -> State:
    """The state to inject."""
    import torch

    spec = backbone.spec
    return State.adopt(
        torch.from_numpy(semantic.recurrent.reshape(spec.layers, -1).copy()),
        tail=None,
        num_tokens=semantic.num_tokens,
        fingerprint=backbone.fingerprint,
        decay_time=torch.from_numpy(semantic.decay_time.reshape(spec.layers, spec.decay_groups).copy()),
        encoding_dtype=encoding_dtype,
    )


def kept_record(
    store: MemoryStore, deposit: Deposit, on_damaged: Callable[[int], None] = lambda deposit_id: None
) -> Record | None:
    """The record of the state after a deposit; None when it has expired, or is damaged, which is told."""
    try:
        return store.read_state(deposit.id)
    except (DamagedStateError, DamagedCorpusError):
        on_damaged(deposit.id)
        return None


def last_state(
    store: MemoryStore,
    deposit: Deposit,
    backbone: Backbone,
    reader: StateReader,
    on_damaged: Callable[[int], None] = lambda deposit_id: None,
) -> State:
    """The state after a deposit: read from its record, or from its text when it has expired or is damaged."""
    record = kept_record(store, deposit, on_damaged)
    return reader.state(record) if record is not None else read_again(deposit, backbone, reader)[1]


def read_again(deposit: Deposit, backbone: Backbone, reader: StateReader) -> tuple[list[int], State]:
    """The tokens of a deposit and the state they leave, as its record would give it back; alone in their batch."""
    ids = backbone.tokenizer.encode(deposit.info.header + deposit.info.text)
    return ids, reader.kept(backbone.encode_chunks([ids])[0])


def refold(
    store: MemoryStore,
    deposits: Iterable[Deposit],
    group: tuple[str, str],
    alpha: float,
    backbone: Backbone,
    reader: StateReader,
    on_damaged: Callable[[int], None] = lambda deposit_id: None,
) -> Semantic | None:
    """The semantic state of a sub-cluster from these deposits, in their order; None of none.

    Args:
        store: the memory.
        deposits: of the sub-cluster.
        group: the sub-cluster.
        alpha: weight of a new deposit.
        backbone: the model.
        reader: of its records.
        on_damaged: told whose state is damaged or gone, so that the text was read again.
    """
    semantic = None
    for deposit in deposits:
        state = last_state(store, deposit, backbone, reader, on_damaged)
        semantic = folded(semantic, deposit.id, group, state, alpha, backbone.spec)
    return semantic
