"""A folder on flash: opened by any number of readers and one writer, changed in commit units.

A commit unit is acknowledged in this order: records written → segment files synced → catalogue committed. Recovery on
opening to write cuts off every byte the catalogue does not acknowledge and finishes erasures that were interrupted,
so a process killed at any moment leaves nothing half-visible, and running it again writes the same bytes.
"""

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, TypeVar

from precog.errors import BusyError, CorpusError, StorageError
from precog.store.belongings import refuse_links
from precog.store.database import Database
from precog.store.failure import guarded
from precog.store.folder import WriterLock, make_folder
from precog.store.folder_reader import FolderReader
from precog.store.layout import RecordLayout
from precog.store.numbered import CATALOGUE, SEGMENTS, NumberedFolder
from precog.store.record import Location, relocate
from precog.store.row_builder import damaged
from precog.store.segment import SegmentWriter
from precog.store.unit import FORGETTING, SCRUB_PENDING, Unit, forgetting_name
from precog.writing import sync_folder

DEFAULT_SEGMENT_BYTES = 1 << 30
REPLACES_GENERATION = "replaces_generation"
StoreType = TypeVar("StoreType", bound="FolderStore")
UnitType = TypeVar("UnitType", bound=Unit)


class FolderStore(FolderReader):
    """A folder, open to read or to write."""

    DATABASE: ClassVar[type[Database]]
    BEGINS_ANEW_AFTER_CHANGES: ClassVar[bool] = False  # the layer above compares every row of a replacement

    def __init__(self, path: Path, folder: Path, catalogue: Database, *, lock: WriterLock | None, write: bool) -> None:
        super().__init__(path, folder, catalogue)
        self._lock = lock
        remedy = self.FOLDER.KIND.states_anew(path)
        self._writer = SegmentWriter(folder / SEGMENTS, self.layout, self.max_segment_bytes, remedy) if write else None

    @classmethod
    def create(
        cls: type[StoreType],
        path: Path,
        *,
        settings: Mapping[str, object],
        layout: RecordLayout,
        fingerprint: bytes,
        key_dim: int,
        max_segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        wait_sec: float = 5.0,
    ) -> StoreType:
        """Makes a new one in an empty or missing folder and opens it to write.

        Raises:
            CorpusError: the folder holds something else already, or a link in the place of a file.
            BusyError: another process is making it.
            StorageError: the disk refuses.
        """
        home = cls.FOLDER(path)
        home.refuse_existing()
        refuse_links(path, cls.FOLDER.KIND.name)
        with guarded(path):
            make_folder(path)
        lock = WriterLock(path, wait_sec, cls.FOLDER.KIND.name)
        try:
            home.refuse_existing()  # somebody else may have made one since
            folder = home.first()
            catalogue = cls._fill(folder, settings, layout, fingerprint, key_dim, max_segment_bytes)
            home.publish(folder)
            store = cls(path, folder, catalogue, lock=lock, write=True)
            store._recover(allow_damaged=False)
            return store
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(
        cls: type[StoreType], path: Path, *, write: bool = False, wait_sec: float = 5.0, allow_damaged: bool = False
    ) -> StoreType:
        """Opens a folder: to read beside anybody, or to write as the only one.

        Args:
            path: the folder.
            write: take the writer's lock and recover from whatever interrupted the last writer.
            wait_sec: how long to wait for another writer to finish.
            allow_damaged: open to write although a segment file is missing or short, to rescue the texts.

        Raises:
            CorpusError: of another kind, or of a newer format; or, to write, a link is in the place of a file.
            DamagedCorpusError: the marker, the catalogue or a segment file is damaged.
            BusyError: another process is still writing after ``wait_sec``.
        """
        home = cls.FOLDER(path)
        if not write:
            folder = home.current
            return cls(path, folder, cls.DATABASE.open(folder / CATALOGUE, write=False), lock=None, write=False)
        home.current  # noqa: B018  # a folder of another kind gets no lock file
        refuse_links(path, cls.FOLDER.KIND.name)
        lock = WriterLock(path, wait_sec, cls.FOLDER.KIND.name)
        try:
            folder = home.current
            store = cls(path, folder, cls.DATABASE.open(folder / CATALOGUE, write=True), lock=lock, write=True)
            store._recover(allow_damaged=allow_damaged)
            return store
        except BaseException:
            lock.release()
            raise

    def __enter__(self: StoreType) -> StoreType:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files and lets the next writer in."""
        self._reader.close()
        if self._writer is not None:
            self._writer.close()
        self._catalogue.close()
        if self._lock is not None:
            self._lock.release()

    @contextlib.contextmanager
    def _committing(self, kind: type[UnitType]) -> Iterator[UnitType]:
        """One commit unit; acknowledged when the ``with`` block has been left without an exception.

        Raises:
            StorageError: the disk is full or refuses; the unit is undone and the store stays usable.
        """
        writer, catalogue = self._writable(), self._catalogue
        catalogue.begin()
        try:
            unit = kind(
                catalogue,
                writer,
                self.layout,
                fingerprint=self.fingerprint,
                key_dim=self.key_dim,
                folder_id=self.folder_id,
            )
            yield unit
            unit.settle()
            writer.sync()
            catalogue.set_segments(writer.counts)
            catalogue.set_meta("next_segment", str(writer.next_number))
            catalogue.bump_generation()
            catalogue.commit()
        except BaseException:
            catalogue.rollback()
            self._cut_back(allow_damaged=True)
            raise
        # The unit stands. Erasing what it deleted is tried again on the next opening, and scrub() insists on it.
        with contextlib.suppress(StorageError):
            self._erase_tombstones()

    @property
    def damage(self) -> tuple[str, ...]:
        """What is wrong with the segment files, a line each, where it was opened although they are damaged."""
        return () if self._writer is None else self._writer.damage

    @property
    def unerased(self) -> list[Location]:
        """Places of deleted records whose bytes may still be on the disk."""
        return self._catalogue.tombstones()

    def scrub(self) -> None:
        """Leaves no trace of what was deleted: states overwritten, the catalogue rewritten, its log emptied.

        An unfinished replacement is dropped, because it may hold what was deleted.

        Raises:
            BusyError: a reader still holds the catalogue's log; close it and scrub again.
            StorageError: the disk refuses.
        """
        self._writable()
        self._erase_tombstones()
        self.FOLDER(self.path).remove_others(keep=self.folder)
        if not self._catalogue.scrub():
            hint = f"close the other programs that read this {self.FOLDER.KIND.name}, then run the same command again"
            raise BusyError("a reader still holds deleted text in the catalogue's log", given=self.path, hint=hint)
        if self._catalogue.get_meta(SCRUB_PENDING):
            self._catalogue.delete_meta(SCRUB_PENDING)

    def drop_index(self) -> None:
        """Deletes the index files; they are made anew from the catalogue."""
        self._writable()
        with guarded(self.folder):
            NumberedFolder(self.folder).remove_index()

    def is_forgetting(self, name: str) -> bool:
        """Whether forgetting something of that name began and has not been settled."""
        return any(forgetting_name(self.folder_id, name) in names.split(",") for names in self._forgetting())

    def settle_forgetting(self, name: str) -> None:
        """Records that nothing is left to be done about what had this name among its names."""
        self._writable()
        settled = forgetting_name(self.folder_id, name)
        left = [names for names in self._forgetting() if settled not in names.split(",")]
        with self._catalogue.transaction():
            if left:
                self._catalogue.set_meta(FORGETTING, " ".join(left))
            else:
                self._catalogue.delete_meta(FORGETTING)

    def _forgetting(self) -> list[str]:
        return (self._catalogue.get_meta(FORGETTING) or "").split()

    def compact(self) -> int:
        """Rewrites the segment files without erased records and returns the bytes given back; atomic."""
        writer, catalogue = self._writable(), self._catalogue
        old = catalogue.segments()
        before = sum(self.layout.offset(count) for count in old.values())
        catalogue.begin()
        try:
            writer.start_new_segment()
            moves = sorted((location, state_id, digest) for state_id, location, digest in catalogue.states())
            for location, state_id, digest in moves:
                self._read(location, digest)  # a damaged record must not get a fresh checksum
                target = writer.next_location()
                writer.append(target, relocate(self._reader.read_bytes(location), target))
                catalogue.move_state(state_id, target)
            writer.sync()
            catalogue.set_segments(writer.counts)
            catalogue.drop_segments(old)
            catalogue.set_meta("next_segment", str(writer.next_number))
            catalogue.commit()
        except BaseException:
            catalogue.rollback()
            self._cut_back(allow_damaged=True)
            raise
        self._reader.close()
        writer.remove(old)
        return before - sum(self.layout.offset(count) for count in writer.counts.values())

    def start_replacement(
        self: StoreType, *, settings: Mapping[str, object], layout: RecordLayout, fingerprint: bytes, key_dim: int
    ) -> StoreType:
        """Opens the one that is to take this one's place, or goes on with an interrupted one of the same settings.

        It is filled like any other and seen by nobody until ``publish_replacement``. Where rows are only added to what
        an interrupted run left, one that was begun before this folder last changed is begun anew.
        """
        self._writable()
        generation = str(self.generation)
        home = self.FOLDER(self.path)
        folder = home.next
        home.remove_others(keep=folder)
        wanted = (dict(settings), layout, fingerprint, key_dim, self.folder_id)
        if folder.exists():
            with contextlib.suppress(CorpusError):
                catalogue = self.DATABASE.open(folder / CATALOGUE, write=True)
                found = type(self)(self.path, folder, catalogue, lock=None, write=True)
                replaces = catalogue.get_meta("replaces")
                is_wanted = (found.settings, found.layout, found.fingerprint, found.key_dim, replaces) == wanted
                has_changed = catalogue.get_meta(REPLACES_GENERATION) != generation
                if is_wanted and not (has_changed and self.BEGINS_ANEW_AFTER_CHANGES):
                    found._recover(allow_damaged=False)
                    return found
                found.close()
            home.remove_others()
            folder = home.next
        replaces_this = {"replaces": self.folder_id, REPLACES_GENERATION: generation}
        catalogue = self._fill(folder, settings, layout, fingerprint, key_dim, self.max_segment_bytes, replaces_this)
        replacement = type(self)(self.path, folder, catalogue, lock=None, write=True)
        replacement._recover(allow_damaged=False)
        return replacement

    def replacement(self: StoreType) -> StoreType | None:
        """The one that is to take this one's place, as far as it is filled, open to read; None where there is none."""
        folder = self.FOLDER(self.path).next
        if not folder.exists():
            return None
        with contextlib.suppress(CorpusError):  # as long as it is only being made
            catalogue = self.DATABASE.open(folder / CATALOGUE, write=False)
            try:
                return type(self)(self.path, folder, catalogue, lock=None, write=False)
            except BaseException:
                catalogue.close()
                raise
        return None

    def publish_replacement(self: StoreType, replacement: StoreType) -> None:
        """Puts the replacement in this one's place in one atomic step and deletes the old one; closes both."""
        self._writable()
        replacement.close()
        home = self.FOLDER(self.path)
        home.publish(replacement.folder)
        home.remove_others()
        self.close()

    def _writable(self) -> SegmentWriter:
        if self._writer is None:
            raise CorpusError(f"the {self.FOLDER.KIND.name} is open to read only", given=self.path)
        return self._writer

    def _cut_back(self, *, allow_damaged: bool) -> None:
        next_number = self._catalogue.number("next_segment")
        writer, counts = self._writable(), self._catalogue.segments()
        with guarded(self.folder):
            in_files = writer.records_in_files()
        for number, in_file in in_files.items():
            # a crash leaves records that no state names; one that is named was acknowledged, whatever the count says
            named = self._catalogue.records_named(number, in_file)
            if named > counts.get(number, 0):
                if not allow_damaged:
                    what, given = (
                        f"the count of segment {number:06d}",
                        f"{counts.get(number, 0)}, and {named} are named",
                    )
                    raise damaged(what, given, self.FOLDER.KIND.states_anew(self.path))
                counts[number] = named
        writer.recover(counts, max(next_number, *(number + 1 for number in counts), 0), allow_damaged=allow_damaged)

    def _recover(self, *, allow_damaged: bool) -> None:
        with guarded(self.path):
            self.FOLDER(self.path).remove_leftovers()
            NumberedFolder(self.folder).remove_index(only_temporary=True)
        self._cut_back(allow_damaged=allow_damaged)
        if not self._is_sealed:  # made before there was a seal
            with self._catalogue.transaction():
                self._catalogue.seal_settings()
            self._is_sealed = True
        self._erase_tombstones()
        if self._catalogue.get_meta(SCRUB_PENDING):
            self.drop_index()  # nobody knows whether they have been brought up to date since
            with contextlib.suppress(BusyError):  # the next writer tries again
                self.scrub()

    def _erase_tombstones(self) -> None:
        places = self._catalogue.tombstones()
        if places:
            left = set(self._writable().erase(places))
            with self._catalogue.transaction():
                self._catalogue.clear_tombstones(place for place in places if place not in left)

    @classmethod
    def _fill(
        cls,
        folder: Path,
        settings: Mapping[str, object],
        layout: RecordLayout,
        fingerprint: bytes,
        key_dim: int,
        max_segment_bytes: int,
        replaces: Mapping[str, str] | None = None,
    ) -> Database:
        with guarded(folder):
            make_folder(folder)
            make_folder(folder / SEGMENTS)
        catalogue = cls.DATABASE.create(folder / CATALOGUE)
        with catalogue.transaction():
            catalogue.set_meta("settings", json.dumps(dict(settings), sort_keys=True))
            catalogue.set_meta("layout", json.dumps(layout.to_json(), sort_keys=True))
            catalogue.set_meta("fingerprint", fingerprint.hex())
            catalogue.set_meta("key_dim", str(key_dim))
            catalogue.set_meta("max_segment_bytes", str(max_segment_bytes))
            catalogue.set_meta(cls.FOLDER.KIND.id_key, secrets.token_hex(16))
            for key, value in (replaces or {}).items():
                catalogue.set_meta(key, value)
            catalogue.seal_settings()
            catalogue.set_meta("next_segment", "0")
            catalogue.begin_generations()
        with guarded(folder):
            sync_folder(folder)
        return catalogue
