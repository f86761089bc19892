"""What anybody may ask of an open memory: deposits, keys, states, and what was derived from them.

It knows states as bytes, semantic states and keys as float32 rows and text as text; it knows no model and no encoder.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Float32, Int64

from precog.errors import CorpusError, DamagedCorpusError
from precog.store.folder_reader import FolderReader
from precog.store.memory.catalogue import MemoryCatalogue
from precog.store.memory.deposit_rows import deposit_or_error, keys_or_error
from precog.store.memory.row_builder import deposit_of, keys_of
from precog.store.memory.rows import (
    Deposit,
    DepositKeys,
    Emergent,
    Group,
    GroupSize,
    KeptStates,
    MemorySize,
    Semantic,
    StoredPrototypes,
)
from precog.store.memory.tables import STATES_ANEW, MemoryFolder
from precog.store.record import Location, Record
from precog.store.row_builder import int_of


class MemoryReader(FolderReader):
    """A memory, open to read; safe to use from several threads.

    Attributes:
        memory_id: random, new with every memory and every replacement of one.
    """

    FOLDER = MemoryFolder
    _catalogue: MemoryCatalogue

    @property
    def memory_id(self) -> str:
        """The id of the folder."""
        return self.folder_id

    def deposit(self, deposit_id: int) -> Deposit | None:
        """The deposit of that id; None when it has been forgotten."""
        return self._catalogue.deposit(deposit_id)

    def find_uid(self, uid: bytes) -> int | None:
        """The id of the deposit of that name, if it is here."""
        return self._catalogue.find_uid(uid)

    def deposits(
        self,
        *,
        ids: Sequence[int] | None = None,
        from_id: int = 0,
        domain: str | None = None,
        subcluster: str | None = None,
        after_utc: float | None = None,
        before_utc: float | None = None,
        speaker: str | None = None,
        superseded: bool | None = None,
        only_sound: bool = False,
    ) -> Iterator[Deposit]:
        """Deposits by rising id, in pages; what is None is not asked for.

        Args:
            ids: those of them that are still here.
            from_id: those of this id or a higher one.
            domain: they are routed to.
            subcluster: of whatever domain, unless that is given, too.
            after_utc: said at this time or later, UTC seconds; leaves out those of an unknown time.
            before_utc: said before this time, UTC seconds; leaves out those of an unknown time.
            speaker: who said it, exactly.
            superseded: only those that are, or only those that are not.
            only_sound: leave out what is damaged; ``damaged_ids`` names it.

        Raises:
            DamagedCorpusError: one is not what was written, unless ``only_sound``.
        """
        rows = self._catalogue.deposit_rows(
            ids=ids,
            from_id=from_id,
            domain=domain,
            subcluster=subcluster,
            after_utc=after_utc,
            before_utc=before_utc,
            speaker=speaker,
            superseded=superseded,
        )
        if only_sound:
            return (found for found in map(deposit_or_error, rows) if isinstance(found, Deposit))
        return map(deposit_of, rows)

    def id_before(self, deposit_id: int, places: int) -> int:
        """The id of the deposit so many places before this one among those that hold; 0 when there are fewer."""
        return self._catalogue.id_before(deposit_id, places)

    def checked_deposits(self) -> Iterator[Deposit | DamagedCorpusError]:
        """All deposits by rising id, a damaged one as the error that names it."""
        return map(deposit_or_error, self._catalogue.deposit_rows())

    def damaged_ids(
        self, ids: Sequence[int] | None = None, *, superseded: bool | None = None, unfinished: bool = False
    ) -> list[int]:
        """The deposits that are not what was written, of these or of all; their rows are read.

        Args:
            ids: of these; None for all.
            superseded: only those that are, or only those that are not; then those whose row is gone are left out.
            unfinished: also those that are forgotten, but not settled.
        """
        rows = self._catalogue.deposit_rows(ids=ids, superseded=superseded)
        found = {int_of(row[0]) for row in rows if isinstance(deposit_or_error(row), DamagedCorpusError)}
        if superseded is None:
            lost = [*self._catalogue.orphaned_ids(), *(self._catalogue.unfinished() if unfinished else ())]
            found |= set(lost) if ids is None else set(lost).intersection(ids)
        return sorted(found)

    def orphaned_ids(self) -> list[int]:
        """Ids of deposits of which states, keys or a semantic state are left, and no row; from indexes alone."""
        return self._catalogue.orphaned_ids()

    def orphaned_semantic(self) -> set[Group]:
        """Sub-clusters with a semantic state, but without the deposit that was folded into it last."""
        return self._catalogue.orphaned_semantic()

    def miscounted_semantic(self) -> list[tuple[Group, int, int]]:
        """Sub-clusters whose semantic state was made of another number of deposits than are there: both numbers."""
        return self._catalogue.miscounted_semantic()

    def semantic_groups(self) -> set[Group]:
        """The sub-clusters that have a semantic state."""
        return self._catalogue.semantic_groups()

    def unfinished(self) -> dict[int, list[str]]:
        """Deposits that are forgotten and of which it is not settled that nothing is left.

        Returns:
            Their ids ▸ what their rows and records could be told by, in hexadecimal.
        """
        return self._catalogue.unfinished()

    def ids_that_hold(self) -> list[int]:
        """Ids of all deposits that were not superseded, rising, damaged ones included; no row is read."""
        return self._catalogue.ids_that_hold()

    def raw_parts(self, deposit_id: int) -> list[bytes]:
        """What a deposit says and its keys as they stand in the catalogue, damaged or not."""
        return self._catalogue.raw_parts(deposit_id)

    def miscounted_groups(self) -> list[str]:
        """Sub-clusters whose counter of deposits is wrong, a line each; no row is read, only an index."""
        return self._catalogue.miscounted_groups()

    def keys_of(
        self, groups: Sequence[Group], *, superseded: bool | None = None, only_sound: bool = False
    ) -> tuple[Int64[np.ndarray, " n"], Float32[np.ndarray, "n E"]]:
        """All keys of some sub-clusters and the deposits they are of; nothing else of the memory is read.

        Raises:
            DamagedCorpusError: a key is not what was written, unless ``only_sound``, which leaves it out.
        """
        return self._catalogue.keys_in(groups, self.key_dim, superseded, only_sound=only_sound)

    def iter_keys(self, deposit_ids: Sequence[int] | None = None, *, only_sound: bool = False) -> Iterator[DepositKeys]:
        """Keys of these deposits, or of all, by rising id; streams.

        Raises:
            DamagedCorpusError: a key is not what was written, unless ``only_sound``, which leaves it out.
        """
        rows = self._catalogue.key_rows(deposit_ids)
        if only_sound:
            found = (keys_or_error(row, self.key_dim) for row in rows)
            return (entry for entry in found if isinstance(entry, DepositKeys))
        return (keys_of(row, self.key_dim) for row in rows)

    def states_of(self, deposit_id: int) -> list[int]:
        """The positions of a deposit of which a state is kept, rising; none when all have expired."""
        return self._catalogue.positions(deposit_id)

    def read_state(self, deposit_id: int, position: int | None = None) -> Record | None:
        """Reads the state after ``position`` tokens of a deposit, or after its last: one lookup, one ``pread``.

        Returns:
            The record, or None when that state has expired or was not kept.

        Raises:
            DamagedStateError: the record is not what was written; names segment and record.
            DamagedCorpusError: the row that says where it lies is not.
            CorpusError: the deposit has been forgotten.
        """
        place = self._locate(deposit_id, position)
        if place is None:
            return None
        return self._read_where_it_is(place, lambda: self._locate(deposit_id, position))

    def prefetch(self, deposit_ids: Iterable[int]) -> None:
        """Lets the disk start on the last states of several deposits before the first is read."""
        places = [self._catalogue.place_of(deposit_id, None) for deposit_id in deposit_ids]
        self._reader.prefetch([place[0] for place in places if not isinstance(place, bool)])

    def semantic(self, domain: str, subcluster: str) -> Semantic | None:
        """The semantic state of a sub-cluster: one indexed row, however much the memory holds.

        Raises:
            DamagedCorpusError: it is not what was written.
        """
        return self._catalogue.semantic(domain, subcluster)

    def semantic_states(self) -> Iterator[Semantic | DamagedCorpusError]:
        """All semantic states, one at a time, a damaged one as the error that names it."""
        return self._catalogue.checked_semantic()

    def subclusters(self) -> list[GroupSize]:
        """The sub-clusters that hold a deposit, and how many, by counters that are kept."""
        return self._catalogue.groups()

    @property
    def has_prototypes(self) -> bool:
        """Whether prototypes are stored, damaged ones included."""
        return self._catalogue.has_prototypes()

    def prototypes(self) -> StoredPrototypes | None:
        """The prototypes, if they were stored.

        Raises:
            DamagedCorpusError: they are not what was written.
        """
        return self._catalogue.prototypes()

    def emergent(self) -> list[Emergent]:
        """The groupings that emerged, by name.

        Raises:
            DamagedCorpusError: one is not what was written.
        """
        found = []
        for grouping in self._catalogue.checked_emergent():
            if isinstance(grouping, DamagedCorpusError):
                raise grouping
            found.append(grouping)
        return found

    def coldest(self) -> Iterator[KeptStates]:
        """Deposits that still have states, the one that was not used for the longest time first; streams."""
        return self._catalogue.coldest(self.layout.record_bytes)

    @property
    def state_bytes(self) -> int:
        """Bytes of the records of all states that are kept."""
        return self._catalogue.num_states() * self.layout.record_bytes

    def size(self) -> MemorySize:
        """Counts and bytes."""
        counts = self._catalogue.counts()
        state_bytes = counts["num_states"] * self.layout.record_bytes
        return MemorySize(**counts, state_bytes=state_bytes, disk_bytes=self.disk_bytes)

    def check_counters(self) -> None:
        """Compares the counters, which have no seal, with what they count.

        Raises:
            DamagedCorpusError: one is wrong.
        """
        for line in self._catalogue.miscounted():
            raise DamagedCorpusError(line, hint=STATES_ANEW)

    def complaints(self) -> Iterator[str]:
        """Everything that is wrong with the catalogue, a line each; ``iter_records`` checks the states themselves."""
        yield from self._catalogue.complaints()
        yield from self._catalogue.complaints_of_rows(self.key_dim)

    def checksum(self) -> str:
        """One sha256 over everything the memory says, not where it lies.

        Raises:
            DamagedStateError: a record is not what was written.
            DamagedCorpusError: a row is not.
        """
        digest = hashlib.sha256()
        for deposit in self.deposits():
            digest.update(repr(deposit).encode("utf-8", "surrogatepass"))
            for position in self.states_of(deposit.id):
                record = self.read_state(deposit.id, position)
                if record is not None:
                    for part in (record.state, record.tau, record.token_ids, record.suffix_array):
                        digest.update(part.tobytes())
                    digest.update(position.to_bytes(8, "little") + record.content_hash)
        for entry in self.iter_keys():
            digest.update(entry.deposit_id.to_bytes(8, "little") + entry.keys.tobytes())
        for semantic in self.semantic_states():
            if isinstance(semantic, DamagedCorpusError):
                raise semantic
            said = (
                semantic.group,
                semantic.alpha,
                semantic.num_deposits,
                semantic.last_deposit_id,
                semantic.num_tokens,
            )
            digest.update(repr(said).encode("utf-8", "surrogatepass"))
            digest.update(semantic.recurrent.tobytes() + semantic.decay_time.tobytes())
        digest.update(repr((self.prototypes(), self.emergent())).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def _locate(self, deposit_id: int, position: int | None) -> tuple[Location, bytes] | None:
        place = self._catalogue.place_of(deposit_id, position)
        if place is False:
            raise CorpusError("this deposit is no longer in the memory", given=deposit_id, hint="ask again")
        return None if place is True else place
