"""What a folder says of itself, whatever rows it holds, and the records in its segment files."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Literal

from precog.errors import CorpusError, DamagedCorpusError, DamagedStateError, StateError
from precog.store.database import Database
from precog.store.folder import MarkedFolder
from precog.store.layout import RecordLayout
from precog.store.numbered import CATALOGUE, SEGMENTS
from precog.store.record import Location, Record
from precog.store.segment import SegmentReader

_FINGERPRINT_BYTES = 32
Fate = Literal["there", "replaced", "removed", "made anew"]


class FolderReader:
    """A folder, open to read; safe to use from several threads.

    Attributes:
        path: the folder.
        folder: the numbered folder inside it, where index files may be kept too.
        settings: what the layer above wrote down when it made the folder.
        layout: sizes of a record.
        fingerprint: 32 bytes of what produces the states.
        key_dim: width of a key.
        folder_id: random, new with every folder and every replacement of one.
        max_segment_bytes: a segment file that would grow beyond it is followed by a new one.
        opened_as: the folder as it was then; None where it had no marker yet.
    """

    FOLDER: ClassVar[type[MarkedFolder]]

    def __init__(self, path: Path, folder: Path, catalogue: Database) -> None:
        self.path = path
        self.folder = folder
        self.opened_as = self.FOLDER(path).identity
        self._catalogue = catalogue
        kind = self.FOLDER.KIND
        self._is_sealed = catalogue.check_settings()
        try:
            settings = json.loads(catalogue.get_meta("settings") or "")
            layout = json.loads(catalogue.get_meta("layout") or "")
            if not isinstance(settings, dict) or any(type(v) is not int for k, v in layout.items() if k != "note"):
                raise ValueError("values of another type")
            self.settings: dict[str, object] = settings
            self.layout = RecordLayout(**layout)
            self.fingerprint = bytes.fromhex(catalogue.get_meta("fingerprint") or "")
            self.folder_id = str(catalogue.get_meta(kind.id_key) or "")
            self.key_dim = catalogue.number("key_dim")
            self.max_segment_bytes = catalogue.number("max_segment_bytes")
            if len(self.fingerprint) != _FINGERPRINT_BYTES or not self.folder_id or self.key_dim < 1:
                raise ValueError("values out of range")
        except (ValueError, TypeError, AttributeError, StateError, RecursionError) as error:
            message = f"the catalogue lacks the {kind.name} settings: {folder / CATALOGUE}"
            raise DamagedCorpusError(message, hint=kind.catalogue_anew) from error
        catalogue.number("generation")
        self._reader = SegmentReader(folder / SEGMENTS, self.layout, kind.states_anew(path))

    @property
    def generation(self) -> int:
        """Rises with every commit; index files that carry another one are stale."""
        return self._catalogue.number("generation")

    def commit_of(self, generation: int) -> str | None:
        """The random id of the commit that made a generation, the same in no other folder, nor in a copy of this one.

        Returns:
            None where it is not known, or no longer; "" for every generation of a folder that was written last before
            commits had ids.
        """
        return self._catalogue.commit_of(generation)

    @property
    def is_current(self) -> bool:
        """False once a replacement has been published: open it again to see it."""
        return self.FOLDER(self.path).current == self.folder

    @property
    def fate(self) -> Fate:
        """What became of the folder that was opened; files that are open would go on answering all the same."""
        now = self.FOLDER(self.path).identity
        if now is None:
            return "removed"
        if self.opened_as is None or now.folder != self.opened_as.folder:
            return "made anew"
        return "there" if now == self.opened_as else "replaced"

    @property
    def disk_bytes(self) -> int:
        """Bytes that all files below the folder take on the disk."""
        return sum(path.stat().st_blocks * 512 for path in self.path.rglob("*") if path.is_file())

    def read(self, location: Location) -> Record:
        """Reads and checks the record at a place, whatever the catalogue says of it."""
        return self._reader.read(location)

    def iter_records(self) -> Iterator[tuple[Location, Record | DamagedStateError]]:
        """Reads and checks every stored state; a damaged one comes as the error that names it."""
        for _, location, expected in self._catalogue.states():
            try:
                yield location, self._read(location, expected)
            except DamagedStateError as error:
                yield location, error
            except DamagedCorpusError as error:  # of the segment's header, so of every record in it
                yield location, DamagedStateError(error.message, given=error.given, hint=error.hint)

    def _read_where_it_is(
        self, place: tuple[Location, bytes], locate: Callable[[], tuple[Location, bytes] | None]
    ) -> Record | None:
        """Reads a record that a writer may have moved or removed since its place was looked up."""
        try:
            return self._read(*place)
        except DamagedStateError:
            if not self.is_current:
                message = f"the {self.FOLDER.KIND.name} has been replaced by a new one"
                raise CorpusError(message, given=self.path, hint="open it again") from None
            moved = locate()
            if moved is None:
                return None
            if moved == place:
                raise
            return self._read(*moved)

    def _read(self, location: Location, expected: bytes) -> Record:
        record = self._reader.read(location)
        if record.content_hash != expected:
            # whole and in its place, but of another time: a segment file from a backup, for instance
            given = f"{record.content_hash.hex()[:12]}, the catalogue says {expected.hex()[:12]}"
            raise DamagedStateError(
                f"{location} holds another state: {given}", hint=self.FOLDER.KIND.states_anew(self.path)
            )
        return record
