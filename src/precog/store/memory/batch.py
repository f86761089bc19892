"""One commit unit of a memory: deposits, states and what is derived from them, visible together or not at all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from jaxtyping import Float32

from precog.errors import CorpusError, DamagedCorpusError, StateError
from precog.store.memory.catalogue import MemoryCatalogue
from precog.store.memory.rows import Deposit, DepositInfo, Dropped, Emergent, Group, Semantic, StoredPrototypes
from precog.store.record import content_hash
from precog.store.unit import SCRUB_PENDING, Unit


class MemoryBatch(Unit):
    """What ``MemoryStore.batch()`` hands out; it is committed when its ``with`` block ends without an exception."""

    _database: MemoryCatalogue

    def add_deposit(self, info: DepositInfo, keys: Float32[np.ndarray, "n E"]) -> tuple[int, bool]:
        """Adds a deposit with one key per window; one whose uid is here already changes nothing.

        Returns:
            Its id, and whether it is new.

        Raises:
            EncoderError: the keys have another width than the memory's.
            CorpusError: a value cannot be kept: a uid of another length, a time without a zone, no finite number.
            DamagedCorpusError: it is here, and damaged.
        """
        return self.copy_deposit(Deposit(0, info), keys)

    def copy_deposit(self, deposit: Deposit, keys: Float32[np.ndarray, "n E"]) -> tuple[int, bool]:
        """Adds a deposit of another memory, or of the one that is being replaced, under its own id and history.

        Raises:
            CorpusError: another deposit has that id.
        """
        vectors = self._key_bytes(keys, "a deposit")
        known = self._database.find_uid(deposit.info.uid)
        if known is not None:
            self._known(known)  # whoever says it again is not to believe that a damaged row keeps it
            return known, False
        return self._database.add_deposit(deposit, len(keys), vectors), True

    def add_state(
        self,
        deposit_id: int,
        position: int,
        token_ids: Sequence[int] | npt.NDArray[np.integer],
        *,
        state: bytes | npt.NDArray[np.generic],
        tau: bytes | npt.NDArray[np.float32] = b"",
        suffix_array: npt.NDArray[np.integer] | None = None,
    ) -> None:
        """Keeps the boundary state after the first ``position`` tokens of a deposit; one that is kept is not replaced.

        Args:
            deposit_id: whose it is.
            position: on the dial; the last one is the deposit's ``num_tokens``.
            token_ids: those ``position`` tokens.
            state: as the memory's record layout says.
            tau: as the memory's record layout says.
            suffix_array: of the tokens; needed for the last position only.

        Raises:
            StateError: position and tokens do not belong together, or a part does not fit the layout.
            StorageError: the disk is full or refuses; leave the ``with`` block, nothing acknowledged is lost.
        """
        num_tokens = self._known(deposit_id).info.num_tokens
        if len(token_ids) != position or not 1 <= position <= num_tokens:
            given = f"position {position}, {len(token_ids)} tokens read"
            expected = f"as many tokens as the position, 1 to {num_tokens}"
            raise StateError("a state does not fit its deposit", given=given, expected=expected)
        if position in self._database.positions(deposit_id):
            return
        location = self._append(token_ids, state=state, tau=tau, suffix_array=suffix_array)
        self._database.add_state(deposit_id, position, content_hash(self._fingerprint, token_ids), location)

    def drop_states(self, deposit_id: int, keep: Sequence[int] = ()) -> int:
        """Lets states of a deposit expire, all but some positions, and returns the bytes given back; its text stays."""
        self._check([deposit_id])
        return self._database.drop_states(deposit_id, keep) * self._layout.record_bytes

    def delete_deposits(self, deposit_ids: Iterable[int]) -> Dropped:
        """Forgets deposits with their keys and states, and drops all that was derived from them.

        What one of them has superseded is superseded by what has superseded that one; with nothing newer left, it holds
        again.

        Deposits whose rows are lost, so that only parts of them are left, are named by the ids of those.

        Call ``MemoryStore.scrub`` afterwards; until it has succeeded every writer that opens the memory tries it.

        Raises:
            CorpusError: one of them is not here.
        """
        gone = sorted(set(deposit_ids))
        catalogue = self._database
        lost = [number for number in catalogue.orphaned_ids() if number in set(gone)]
        self._check(sorted(set(gone).difference(lost)))
        groups = catalogue.groups_of(gone)
        has_damaged = groups is None
        if groups is None:  # what is damaged may have been anywhere
            groups = catalogue.semantic_groups()
            catalogue.delete_all_semantic()
        freed = sum(len(catalogue.positions(deposit_id)) for deposit_id in gone) * self._layout.record_bytes
        newer = self._newer_than(gone)
        older = sorted(set(catalogue.superseded_by(gone)).difference(gone))
        restored = [deposit_id for deposit_id in older if self._holds_again(deposit_id, newer)]
        catalogue.delete_deposits(gone)
        catalogue.delete_parts_of(lost)
        if has_damaged:  # they were counted under other names than they had in the end
            catalogue.recount_groups()
        for group in groups:
            catalogue.delete_semantic(group)
        has_dropped_prototypes = catalogue.drop_prototypes_of(gone)
        emergent = catalogue.drop_emergent_of(gone)
        catalogue.set_meta(SCRUB_PENDING, "1")
        return Dropped(tuple(sorted(groups)), has_dropped_prototypes, tuple(emergent), freed, tuple(restored))

    def note_unfinished(self, deposit_ids: Iterable[int]) -> None:
        """Writes down, in the step that deletes them, of which deposits all traces are to be removed.

        With each is kept, in hexadecimal, what its rows and records can be told by and what says nothing of it: its uid
        and the hashes of its states. So the search for them can be done again, until ``MemoryStore.settle_unfinished``.
        """
        self._database.note_unfinished(self._database.marks_of(sorted(set(deposit_ids))))

    def move_deposits(self, deposit_ids: Iterable[int], domain: str, subcluster: str, probability: float) -> Dropped:
        """Routes deposits to another sub-cluster; the semantic states of those they leave and enter are dropped."""
        left: set[Group] = set()
        for deposit_id in sorted(set(deposit_ids)):
            deposit = self._known(deposit_id)
            info = replace(deposit.info, domain=domain, subcluster=subcluster, probability=probability)
            if info.group != deposit.info.group:
                left.add(deposit.info.group)
            self._database.rewrite(replace(deposit, info=info))
        groups = tuple(sorted({*left, (domain, subcluster)})) if left else ()
        for group in groups:
            self._database.delete_semantic(group)
        return Dropped(groups)

    def supersede(self, old_id: int, new_id: int, at: float) -> None:
        """Records that one deposit says something newer than another; both stay, until either is forgotten.

        Args:
            old_id: what no longer holds. When all that is newer is forgotten, it holds again.
            new_id: what holds instead.
            at: since when, UTC seconds.

        Raises:
            CorpusError: one of them is not here, or the newer one is superseded by the older one.
        """
        old, newer = self._known(old_id), self._known(new_id)
        seen = {old_id}
        while newer.id not in seen:
            seen.add(newer.id)
            if newer.superseded_by is None:
                self._database.rewrite(replace(old, superseded_by=new_id, superseded_at=at))
                return
            newer = self._known(newer.superseded_by)
        raise CorpusError("a deposit cannot supersede what has superseded it", given=f"{old_id} by {new_id}")

    def touch(self, deposit_ids: Iterable[int], at: float) -> None:
        """Counts that deposits were recalled, at a time in UTC seconds; those that are gone are left out."""
        for deposit_id in sorted(set(deposit_ids)):
            deposit = self._database.deposit(deposit_id)
            if deposit is not None:
                accessed_at = max(at, deposit.accessed_at)
                self._database.rewrite(replace(deposit, num_accesses=deposit.num_accesses + 1, accessed_at=accessed_at))

    def put_semantic(self, semantic: Semantic) -> None:
        """Replaces the semantic state of a sub-cluster.

        Raises:
            StateError: a value is not finite.
            CorpusError: its last deposit is not here.
        """
        if not (np.isfinite(semantic.recurrent).all() and np.isfinite(semantic.decay_time).all()):
            name = f"{semantic.domain}/{semantic.subcluster}"
            raise StateError(f"a semantic state holds values that are not finite: {name}", hint="nothing was stored")
        self._check([semantic.last_deposit_id])
        self._database.put_semantic(semantic)

    def delete_semantic(self, domain: str, subcluster: str) -> None:
        """Removes the semantic state of a sub-cluster, if there is one."""
        self._database.delete_semantic((domain, subcluster))

    def put_prototypes(self, prototypes: StoredPrototypes) -> None:
        """Replaces the prototypes.

        Raises:
            CorpusError: a deposit that one was fitted on is not here.
        """
        self._check(sorted({member for ids in prototypes.members for member in ids}))
        self._database.put_prototypes(prototypes)

    def delete_prototypes(self) -> None:
        """Removes the prototypes, if there are any."""
        self._database.delete_prototypes()

    def put_emergent(self, emergent: Emergent) -> None:
        """Replaces the grouping of that name.

        Raises:
            CorpusError: one of its deposits is not here.
        """
        self._check(emergent.members)
        self._database.put_emergent(emergent)

    def delete_emergent(self, name: str) -> None:
        """Removes a grouping, if there is one of that name."""
        self._database.delete_emergent(name)

    def _known(self, deposit_id: int) -> Deposit:
        deposit = self._database.deposit(deposit_id)
        if deposit is None:
            raise _unknown(deposit_id)
        return deposit

    def _check(self, deposit_ids: Sequence[int]) -> None:
        for deposit_id in sorted(set(deposit_ids) - self._database.known(deposit_ids)):
            raise _unknown(deposit_id)

    def _newer_than(self, deposit_ids: Sequence[int]) -> dict[int, int | None]:
        """Of each, what has superseded it; None where nothing has, or where that can no longer be told."""
        found: dict[int, int | None] = {}
        for deposit_id in deposit_ids:
            try:
                found[deposit_id] = self._known(deposit_id).superseded_by
            except CorpusError:  # damaged, or its row is lost
                found[deposit_id] = None
        return found

    def _holds_again(self, deposit_id: int, newer: Mapping[int, int | None]) -> bool:
        """Lets what is newer than those that go supersede a deposit; True if nothing is, so that it holds again."""
        try:
            deposit = self._known(deposit_id)
        except DamagedCorpusError:  # it stays damaged, and forgetting another one goes on
            self._database.clear_superseder(deposit_id)
            return False
        by = deposit.superseded_by
        while by is not None and by in newer:
            by = newer[by]
        at = None if by is None else deposit.superseded_at
        self._database.rewrite(replace(deposit, superseded_by=by, superseded_at=at))
        return by is None


def _unknown(deposit_id: int) -> CorpusError:
    return CorpusError("there is no such deposit in this memory", given=deposit_id)
