"""A folder copied while others write to it: what its catalogue says at one moment, and the records it names then.

The catalogue is copied first. A record that it names was synced before it was named and is never written again, but
may be erased, or moved to another file, while it is being copied. Then the catalogue is copied anew and the records
that it names now and that are still missing are added, until none is. What nothing names is left out, so that a copy
holds no byte of what was forgotten before it was begun.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from precog.errors import CorpusError, DamagedCorpusError, DamagedStateError
from precog.store.corpus_store import CorpusStore
from precog.store.failure import guarded
from precog.store.folder import MarkedFolder
from precog.store.folder_store import FolderStore
from precog.store.layout import RecordLayout
from precog.store.memory import MemoryStore
from precog.store.numbered import CATALOGUE, SEGMENTS
from precog.store.record import Location, unpack
from precog.store.segment import SegmentReader
from precog.writing import marked_kinds

_STORES: dict[str, type[FolderStore]] = {"corpus": CorpusStore, "memory": MemoryStore}
_PIECE_BYTES = 16 << 20


@dataclass(frozen=True)
class Piece:
    """Bytes of a segment file.

    Attributes:
        segment: number of the file.
        offset: where they stand in it.
        data: header, or whole records.
    """

    segment: int
    offset: int
    data: bytes


@dataclass
class FolderCopy:
    """The copy of one folder, as it proceeds.

    Attributes:
        path: the folder.
        kind: ``corpus`` or ``memory``.
        current: name of the numbered folder that is copied.
        segment_bytes: size of every segment file.
        dropped: offset and size of records that were copied and are named no more, by segment.
        damaged: records that the catalogue names and that are not what was written.
        is_lost: whether the folder was replaced or removed meanwhile: what was copied is of no use.
    """

    path: Path
    kind: str
    current: str = ""
    segment_bytes: dict[int, int] = field(default_factory=dict)
    dropped: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    is_lost: bool = False
    _copied: dict[Location, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> "FolderCopy | None":
        """The copy of a folder that has not begun; None where the folder is neither a corpus nor a memory."""
        kind = next((kind for kind in marked_kinds(path) if kind in _STORES), None)
        return None if kind is None else cls(path, kind)

    @property
    def _folder(self) -> MarkedFolder:
        return _STORES[self.kind].FOLDER(self.path)

    def pieces(self, catalogue: Path) -> Iterator[Piece]:
        """Copies the folder; all is settled when the last piece has been taken.

        Args:
            catalogue: file to be, which holds a copy of the catalogue in the end.

        Raises:
            CorpusError: of a newer format.
            DamagedCorpusError: the marker or the catalogue is damaged.
            StorageError: the disk refuses.
        """
        opened: set[int] = set()
        missing: set[Location] = set()
        while True:
            found = self._look(catalogue)
            if found is None:
                return
            layout, named = found
            for number in sorted(set(self.segment_bytes) - opened):
                opened.add(number)
                yield Piece(number, 0, layout.segment_header(number))
            wanted = sorted(place for place, digest in named.items() if self._copied.get(place) != digest)
            before, missing = missing, set()
            yield from self._records(layout, wanted, named, missing)
            if missing <= before:  # none at all, or those that were missing a moment ago and are still named
                break
        self.damaged = [str(place) for place in sorted(missing)]
        for place in sorted(set(self._copied) - set(named)):
            if place.segment in self.segment_bytes:
                dropped = self.dropped.setdefault(place.segment, [])
                dropped.append((layout.offset(place.slot), layout.record_bytes))

    def _look(self, catalogue: Path) -> tuple[RecordLayout, dict[Location, bytes]] | None:
        """Copies the catalogue; None where the folder is not the one that was begun with."""
        database = _STORES[self.kind].DATABASE
        try:
            current = self._folder.current
            self.current = self.current or current.name
            if current.name == self.current:
                with guarded(catalogue):
                    catalogue.unlink(missing_ok=True)
                source = database.open(current / CATALOGUE, write=False)
                try:
                    source.copy_to(catalogue)
                finally:
                    source.close()
        except CorpusError:
            if self._is_here:
                raise
        if not self._is_here:
            self.is_lost = True
            return None
        copy = database.open(catalogue, write=False)
        try:
            copy.check_settings()
            try:
                layout = RecordLayout(**json.loads(copy.get_meta("layout") or ""))
            except (ValueError, TypeError) as error:
                hint = self._folder.KIND.catalogue_anew
                raise DamagedCorpusError(f"the catalogue of {self.path} lacks its layout", hint=hint) from error
            self.segment_bytes = {number: layout.offset(count) for number, count in copy.segments().items()}
            return layout, {place: digest for _, place, digest in copy.states()}
        finally:
            copy.close()

    @property
    def _is_here(self) -> bool:
        try:
            return self._folder.current.name == self.current
        except DamagedCorpusError:
            raise
        except CorpusError:
            if self._folder.exists:
                raise
            return False

    def _records(
        self, layout: RecordLayout, wanted: list[Location], named: dict[Location, bytes], missing: set[Location]
    ) -> Iterator[Piece]:
        reader = SegmentReader(self.path / self.current / SEGMENTS, layout)
        first, records = Location(-1, -1), bytearray()
        try:
            for place in wanted:
                follows = place == Location(first.segment, first.slot + len(records) // layout.record_bytes)
                if records and (not follows or len(records) + layout.record_bytes > _PIECE_BYTES):
                    yield Piece(first.segment, layout.offset(first.slot), bytes(records))
                    records.clear()
                try:
                    data = reader.read_bytes(place)
                    if unpack(layout, place, data).content_hash != named[place]:
                        raise DamagedStateError(f"{place} holds another state")
                except (DamagedStateError, DamagedCorpusError):
                    missing.add(place)
                    continue
                if not records:
                    first = place
                records += data
                self._copied[place] = named[place]
            if records:
                yield Piece(first.segment, layout.offset(first.slot), bytes(records))
        finally:
            reader.close()
