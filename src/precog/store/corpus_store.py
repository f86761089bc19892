"""A corpus on flash: opened by any number of readers and one writer, changed in commit units.

A commit unit is acknowledged in this order: records written → segment files synced → catalogue committed. Recovery on
opening to write cuts off every byte the catalogue does not acknowledge and finishes erasures that were interrupted,
so a process killed at any moment leaves nothing half-visible, and running it again writes the same bytes.

A store knows states as bytes, keys as float32 rows and text as text; it knows no model, no encoder and no index.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from precog.errors import BusyError, CorpusError, DamagedCorpusError, DamagedStateError, StorageError
from precog.store.batch import Batch
from precog.store.catalogue import Catalogue
from precog.store.failure import guarded
from precog.store.folder import CorpusFolder, WriterLock, make_folder, sync_folder
from precog.store.layout import RecordLayout
from precog.store.record import Location, Record, relocate
from precog.store.rows import Chunk, ChunkKeys, ChunkText, Document, StoreSize
from precog.store.segment import SegmentReader, SegmentWriter

CATALOGUE = "catalogue.sqlite"
SEGMENTS = "segments"
DEFAULT_SEGMENT_BYTES = 1 << 30
_META = ("settings", "layout", "fingerprint", "key_dim", "max_segment_bytes", "generation")


class CorpusStore:
    """A corpus folder, open.

    Attributes:
        path: the corpus folder.
        folder: the numbered folder inside it, where index files may be kept too.
        settings: what the corpus layer wrote down when it made the corpus.
        layout: sizes of a record.
        fingerprint: 32 bytes of what produces the states.
        key_dim: width of a key.
    """

    def __init__(self, path: Path, folder: Path, catalogue: Catalogue, *, lock: WriterLock | None, write: bool) -> None:
        self.path = path
        self.folder = folder
        self._catalogue = catalogue
        self._lock = lock
        meta = {key: catalogue.get_meta(key) for key in _META}
        try:
            self.settings: dict[str, object] = json.loads(meta["settings"] or "")
            self.layout = RecordLayout(**json.loads(meta["layout"] or ""))
            self.fingerprint = bytes.fromhex(meta["fingerprint"] or "")
            self.key_dim = int(meta["key_dim"] or "")
            max_segment_bytes = int(meta["max_segment_bytes"] or "")
        except (ValueError, TypeError) as error:
            raise DamagedCorpusError("the catalogue lacks the corpus settings", given=folder / CATALOGUE) from error
        self._reader = SegmentReader(folder / SEGMENTS, self.layout)
        self._writer: SegmentWriter | None = None
        if write:
            self._writer = SegmentWriter(folder / SEGMENTS, self.layout, max_segment_bytes)

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        settings: Mapping[str, object],
        layout: RecordLayout,
        fingerprint: bytes,
        key_dim: int,
        max_segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        wait_sec: float = 5.0,
    ) -> Self:
        """Makes a new corpus in an empty or missing folder and opens it to write.

        Raises:
            CorpusError: the folder holds something else, or a corpus already.
            BusyError: another process is making it.
            StorageError: the disk refuses.
        """
        home = CorpusFolder(path)
        if home.exists:
            raise CorpusError("there is a corpus here already", given=path)
        with guarded(path):
            make_folder(path)
        home.check_is_free()
        lock = WriterLock(path, wait_sec)
        try:
            folder = home.first()
            catalogue = _fill(folder, settings, layout, fingerprint, key_dim, max_segment_bytes)
            home.publish(folder)
            store = cls(path, folder, catalogue, lock=lock, write=True)
            store._recover(allow_damaged=False)
            return store
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path, *, write: bool = False, wait_sec: float = 5.0, allow_damaged: bool = False) -> Self:
        """Opens a corpus: to read beside anybody, or to write as the only one.

        Args:
            path: the corpus folder.
            write: take the writer's lock and recover from whatever interrupted the last writer.
            wait_sec: how long to wait for another writer to finish.
            allow_damaged: open to write although a segment file is missing or short, to rescue the texts.

        Raises:
            CorpusError: not a corpus, or of a newer format.
            DamagedCorpusError: the marker, the catalogue or a segment file is damaged.
            BusyError: another process is still writing after ``wait_sec``.
        """
        home = CorpusFolder(path)
        if not write:
            folder = home.current
            return cls(path, folder, Catalogue.open(folder / CATALOGUE, write=False), lock=None, write=False)
        home.current  # noqa: B018  # a folder that is no corpus gets no lock file
        lock = WriterLock(path, wait_sec)
        try:
            folder = home.current
            store = cls(path, folder, Catalogue.open(folder / CATALOGUE, write=True), lock=lock, write=True)
            store._recover(allow_damaged=allow_damaged)
            return store
        except BaseException:
            lock.release()
            raise

    def __enter__(self) -> Self:
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

    @property
    def generation(self) -> int:
        """Rises with every commit; index files that carry another one are stale."""
        return int(self._catalogue.get_meta("generation") or 0)

    @property
    def is_current(self) -> bool:
        """False once a replacement has been published: open the corpus again to see it."""
        return CorpusFolder(self.path).current == self.folder

    # reading

    def documents(self, status: str | None = None) -> Iterator[Document]:
        """All documents, or those of one status, in the order they were added."""
        return self._catalogue.documents(status=status)

    def find_documents(self, source: str) -> list[Document]:
        """The rows of one source: the settled one and, while it is being re-read, the unfinished one."""
        return list(self._catalogue.documents(source))

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
        """The chunks of these ids; those forgotten in the meantime are left out."""
        return self._catalogue.chunks(chunk_ids)

    def chunks_of(self, document_id: int) -> Iterator[Chunk]:
        """The chunks of a document in order."""
        return self._catalogue.chunks_of(document_id)

    def visible_chunk_ids(self) -> Iterator[int]:
        """Ids of the chunks a search may find, rising: those of indexed documents."""
        return self._catalogue.visible_chunk_ids()

    def iter_keys(self, chunk_ids: Sequence[int] | None = None) -> Iterator[ChunkKeys]:
        """Keys of the visible chunks among these, or of all of them, for the dense index; streams."""
        return self._catalogue.keys(chunk_ids, self.key_dim)

    def iter_texts(self, chunk_ids: Sequence[int] | None = None) -> Iterator[ChunkText]:
        """Texts of the visible chunks among these, or of all of them, for the lexical index; streams."""
        return self._catalogue.texts(chunk_ids)

    def read_state(self, chunk_id: int) -> Record:
        """Reads the state of a chunk: one lookup, one ``pread``, one CRC.

        Raises:
            DamagedStateError: the record is not what was written; names segment and record.
            CorpusError: the chunk has been forgotten.
        """
        location = self._locate(chunk_id)
        try:
            return self._reader.read(location)
        except DamagedStateError:
            moved = self._locate(chunk_id)  # a writer may have compacted or forgotten it since the lookup
            if moved == location:
                raise
            return self._reader.read(moved)

    def read(self, location: Location) -> Record:
        """Reads the record at a place; see ``read_state``."""
        return self._reader.read(location)

    def prefetch(self, chunk_ids: Iterable[int]) -> None:
        """Lets the disk start on several states before the first is read."""
        self._reader.prefetch([self._locate(chunk_id) for chunk_id in chunk_ids])

    def iter_records(self) -> Iterator[tuple[Location, Record | DamagedStateError]]:
        """Reads and checks every stored state; a damaged one comes as the error that names it."""
        for _, location in self._catalogue.states():
            try:
                yield location, self._reader.read(location)
            except DamagedStateError as error:
                yield location, error

    def size(self) -> StoreSize:
        """Counts and bytes."""
        counts = self._catalogue.counts()
        disk_bytes = sum(p.stat().st_blocks * 512 for p in self.path.rglob("*") if p.is_file())
        return StoreSize(**counts, state_bytes=counts["num_states"] * self.layout.record_bytes, disk_bytes=disk_bytes)

    def checksum(self) -> str:
        """One sha256 over everything the corpus says: documents, chunks, keys and states, not where they lie.

        Raises:
            DamagedStateError: a record is not what was written.
        """
        digest = hashlib.sha256()
        for document in sorted(self.documents(), key=lambda d: (d.info.source, d.status)):
            digest.update(repr((document.info, document.status, document.reason)).encode("utf-8", "surrogatepass"))
            for chunk in self.chunks_of(document.id):
                record = self.read_state(chunk.id)
                digest.update(repr(chunk.info).encode("utf-8", "surrogatepass"))
                digest.update(self._catalogue.key_bytes(chunk.id))
                for part in (record.state, record.tau, record.token_ids, record.suffix_array):
                    digest.update(part.tobytes())
                digest.update(record.content_hash)
        return digest.hexdigest()

    # writing

    @contextlib.contextmanager
    def batch(self) -> Iterator[Batch]:
        """One commit unit; acknowledged when the ``with`` block has been left without an exception.

        Raises:
            StorageError: the disk is full or refuses; the unit is undone and the store stays usable.
        """
        writer, catalogue = self._writable(), self._catalogue
        catalogue.begin()
        try:
            yield Batch(catalogue, writer, self.layout, self.fingerprint, self.key_dim)
            catalogue.delete_unused_states()
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

    def scrub(self) -> None:
        """Leaves no trace of what was deleted: states overwritten, the catalogue rewritten, its log emptied.

        An unfinished replacement is dropped, because it may hold what was deleted.

        Raises:
            BusyError: a reader still holds the catalogue's log; close it and scrub again.
            StorageError: the disk refuses.
        """
        self._writable()
        self._erase_tombstones()
        CorpusFolder(self.path).remove_others(keep=self.folder)
        if not self._catalogue.scrub():
            hint = "close the other programs that read this corpus, then run the same command again"
            raise BusyError("a reader still holds deleted text in the catalogue's log", given=self.path, hint=hint)

    def compact(self) -> int:
        """Rewrites the segment files without erased records and returns the bytes given back; atomic."""
        writer, catalogue = self._writable(), self._catalogue
        old = catalogue.segments()
        before = sum(self.layout.offset(count) for count in old.values())
        catalogue.begin()
        try:
            writer.start_new_segment()
            moves = sorted((location, state_id) for state_id, location in catalogue.states())
            for location, state_id in moves:
                self._reader.read(location)
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
        self, *, settings: Mapping[str, object], layout: RecordLayout, fingerprint: bytes, key_dim: int
    ) -> "CorpusStore":
        """Opens the corpus that is to take this one's place, or goes on with an interrupted one of the same settings.

        It is filled like any other and seen by nobody until ``publish_replacement``.
        """
        self._writable()
        folder = CorpusFolder(self.path).next
        wanted = (dict(settings), layout, fingerprint, key_dim)
        if folder.exists():
            with contextlib.suppress(CorpusError):
                catalogue = Catalogue.open(folder / CATALOGUE, write=True)
                found = CorpusStore(self.path, folder, catalogue, lock=None, write=True)
                if (found.settings, found.layout, found.fingerprint, found.key_dim) == wanted:
                    found._recover(allow_damaged=False)
                    return found
                found.close()
            with guarded(folder):
                shutil.rmtree(folder)
        max_segment_bytes = int(self._catalogue.get_meta("max_segment_bytes") or DEFAULT_SEGMENT_BYTES)
        catalogue = _fill(folder, settings, layout, fingerprint, key_dim, max_segment_bytes)
        replacement = CorpusStore(self.path, folder, catalogue, lock=None, write=True)
        replacement._recover(allow_damaged=False)
        return replacement

    def publish_replacement(self, replacement: "CorpusStore") -> None:
        """Puts the replacement in this corpus's place in one atomic step and deletes the old one; closes both."""
        self._writable()
        replacement.close()
        home = CorpusFolder(self.path)
        home.publish(replacement.folder)
        home.remove_others()
        self.close()

    def _locate(self, chunk_id: int) -> Location:
        location = self._catalogue.locate(chunk_id)
        if location is None:
            raise CorpusError("this chunk is no longer in the corpus", given=chunk_id, hint="ask again")
        return location

    def _writable(self) -> SegmentWriter:
        if self._writer is None:
            raise CorpusError("the corpus is open to read only", given=self.path)
        return self._writer

    def _cut_back(self, *, allow_damaged: bool) -> None:
        next_number = int(self._catalogue.get_meta("next_segment") or 0)
        self._writable().recover(self._catalogue.segments(), next_number, allow_damaged=allow_damaged)

    def _recover(self, *, allow_damaged: bool) -> None:
        self._cut_back(allow_damaged=allow_damaged)
        self._erase_tombstones()

    def _erase_tombstones(self) -> None:
        places = self._catalogue.tombstones()
        if places:
            self._writable().erase(places)
            with self._catalogue.transaction():
                self._catalogue.clear_tombstones(places)


def _fill(
    folder: Path,
    settings: Mapping[str, object],
    layout: RecordLayout,
    fingerprint: bytes,
    key_dim: int,
    max_segment_bytes: int,
) -> Catalogue:
    with guarded(folder):
        make_folder(folder)
        make_folder(folder / SEGMENTS)
    catalogue = Catalogue.create(folder / CATALOGUE)
    with catalogue.transaction():
        catalogue.set_meta("settings", json.dumps(dict(settings), sort_keys=True))
        catalogue.set_meta("layout", json.dumps(layout.to_json(), sort_keys=True))
        catalogue.set_meta("fingerprint", fingerprint.hex())
        catalogue.set_meta("key_dim", str(key_dim))
        catalogue.set_meta("max_segment_bytes", str(max_segment_bytes))
        catalogue.set_meta("next_segment", "0")
        catalogue.set_meta("generation", "0")
    with guarded(folder):
        sync_folder(folder)
    return catalogue
