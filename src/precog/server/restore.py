"""A backup becomes folders again: everything is checked before anything stands under its name."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from precog.errors import CorpusError, InputError, StorageError
from precog.server import data_folder
from precog.server.archive import ENTRY, ArchiveReader
from precog.store.corpus_store import CorpusStore
from precog.store.failure import guarded
from precog.store.folder import MarkedFolder, make_folder
from precog.store.memory import MemoryStore
from precog.store.numbered import CATALOGUE, SEGMENTS
from precog.writing import open_new, sync_folder

_FOLDERS: dict[object, type[MarkedFolder]] = {"corpus": CorpusStore.FOLDER, "memory": MemoryStore.FOLDER}
_TREE = "tree"


@dataclass(frozen=True)
class Restored:
    """What was restored.

    Attributes:
        made_at: when the backup was made.
        num_corpora: corpora that are there now.
        num_memories: memories that are there now.
        num_files: other files that are there now.
        places: folders that are there now.
    """

    made_at: str
    num_corpora: int
    num_memories: int
    num_files: int
    places: tuple[Path, ...]

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "made_at": self.made_at,
            "corpora": self.num_corpora,
            "memories": self.num_memories,
            "files": self.num_files,
            "places": [str(place) for place in self.places],
        }


def restore(
    backup: Path, *, data: Path, home: Path, on_bytes: Callable[[int, int], None] = lambda done, total: None
) -> Restored:
    """Makes folders of a backup.

    Args:
        backup: the file.
        data: data folder to be; of one user's backup, the folder to put that user into.
        home: home folder of the program, below which memories go.
        on_bytes: told how many bytes of the file are read, of how many.

    Raises:
        InputError: the file is no backup, or damaged, or cut short.
        CorpusError: it has a newer format.
        StorageError: something is there already, or the disk refuses; nothing was changed.
    """
    try:
        total = backup.stat().st_size
    except OSError as error:
        raise InputError("the backup cannot be read", given=f"{backup}: {error.strerror or error}") from error
    reader = ArchiveReader(backup, lambda done: on_bytes(done, total))
    with _stage(data.parent, data.name) as data_stage, _stage(home, "memory") as home_stage:
        stages = {"data": data_stage, "home": home_stage}
        for entry in reader.entries():
            with guarded(backup):
                _write(stages, entry.name, entry.blocks)
        try:
            moves, report = _assembled(reader.manifest, stages, data, home)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError("the manifest of the backup is not as it should be", given=backup) from error
        with guarded(data):
            _publish(moves)
    return report


@contextlib.contextmanager
def _stage(beside: Path, name: str) -> Iterator[Path]:
    """A folder that is there while the block lasts; made folders above it go again when they stay empty."""
    with guarded(beside):
        made = [folder for folder in (beside, *beside.parents) if not folder.exists()]
        beside.mkdir(mode=0o700, parents=True, exist_ok=True)
        stage = beside / f".{name[:100]}.{secrets.token_hex(8)}.restore"
        stage.mkdir(mode=0o700)
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()


def _write(stages: dict[str, Path], name: str, blocks: Iterator[bytes]) -> None:
    match = ENTRY.fullmatch(name)
    assert match is not None
    root, number, segment, offset = match.groups()
    file = stages[root] / number
    if "/" in name.partition("/")[2]:
        file = file / (f"{SEGMENTS}/{segment}" if segment else CATALOGUE)
    for folder in (file.parent.parent, file.parent):
        if folder != stages[root].parent:
            folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY) if file.exists() else open_new(file)
    with os.fdopen(descriptor, "wb", closefd=True) as out:
        out.seek(int(offset or 0))
        for block in blocks:
            out.write(block)
        out.flush()
        os.fsync(out.fileno())


def _assembled(
    manifest: dict[str, object], stages: dict[str, Path], data: Path, home: Path
) -> tuple[list[tuple[Path, Path]], Restored]:
    """Puts everything under its names below the stages; returns what is to be renamed to what."""
    trees = {root: stage / _TREE for root, stage in stages.items()}
    for tree in trees.values():
        make_folder(tree)
    counts = {"corpus": 0, "memory": 0, "file": 0}
    memories = []
    for said in _dicts(manifest["folders"]):
        root, staged = _staged(stages, str(said["entry"]))
        target = _inside(trees[root], said["path"])
        _settle_segments(staged / SEGMENTS, said)
        current = str(said["current"])
        if len(current) != 6 or not current.isdigit():
            raise ValueError(current)
        _make(target, trees[root])
        staged.rename(target / current)
        _FOLDERS[said["kind"]](target).publish(target / current)
        counts[str(said["kind"])] += 1
        if root == "home":
            memories.append(target)
    for said in _dicts(manifest["files"]):
        root, staged = _staged(stages, str(said["entry"]))
        target = _inside(trees[root], said["path"])
        _make(target.parent, trees[root])
        staged.rename(target)
        counts["file"] += 1
    moves = [(memory, home / memory.relative_to(trees["home"])) for memory in memories]
    if any(trees["data"].iterdir()):
        if manifest["is_whole"] is True:
            data_folder.format_of(trees["data"])  # refuses a newer one; an older one is upgraded at the next start
            moves.append((trees["data"], data))
        else:
            _check_format(manifest["data_format"], "the backup")
            _check_format(data_folder.format_of(data) if data.is_dir() else None, "the data folder")
            users = sorted((trees["data"] / "users").iterdir())
            moves += [(user, data / "users" / user.name) for user in users]
    places = tuple(target for _, target in moves)
    for place in places:
        with guarded(place):
            if os.path.lexists(place) and not (place.is_dir() and not place.is_symlink() and not any(place.iterdir())):
                hint = "move it away, or name another folder; nothing was changed"
                raise StorageError("something is there already, and is not overwritten", given=place, hint=hint)
    made_at = str(manifest["made_at"])
    return moves, Restored(made_at, counts["corpus"], counts["memory"], counts["file"], places)


def _check_format(found: object, whose: str) -> None:
    newest = len(data_folder.MIGRATIONS)
    if found not in (None, newest):
        hint = "start `precog serve` of this version on the whole folder once, which upgrades it"
        raise CorpusError(f"{whose} has another format", given=found, expected=newest, hint=hint)


def _dicts(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise TypeError("a list of objects")
    return value


def _staged(stages: dict[str, Path], entry: str) -> tuple[str, Path]:
    match = ENTRY.fullmatch(entry)
    if match is None or match.group(0) != f"{match[1]}/{match[2]}":
        raise ValueError(entry)
    staged = stages[match[1]] / match[2]
    if not staged.exists():
        raise ValueError(entry)
    return match[1], staged


def _inside(tree: Path, parts: object) -> Path:
    """A path below a folder, of names that lead nowhere else."""
    if not isinstance(parts, list) or not parts:
        raise ValueError("no path")
    for part in parts:
        if not isinstance(part, str) or part in ("", ".", "..") or "/" in part or "\0" in part:
            raise ValueError("a name that is none")
    return tree.joinpath(*parts)


def _make(folder: Path, tree: Path) -> None:
    """Makes a folder below another, and those between, for the owner alone."""
    if folder != tree:
        _make(folder.parent, tree)
        make_folder(folder)


def _settle_segments(folder: Path, said: dict[str, object]) -> None:
    """Gives segment files their size, and takes out what was forgotten while the backup was made."""
    sizes, dropped = said["segments"], said["dropped"]
    if not isinstance(sizes, dict) or not isinstance(dropped, dict):
        raise TypeError("sizes of segments")
    make_folder(folder)
    for path in folder.iterdir():
        if path.name not in sizes:
            path.unlink()
    if sizes.keys() != {path.name for path in folder.iterdir()}:
        raise ValueError("other segments")
    for name, size in sizes.items():
        with open(folder / Path(name).name, "r+b") as file:
            for offset, num_bytes in dropped.get(name, []):
                file.seek(offset)
                file.write(bytes(num_bytes))
            file.truncate(size)
            file.flush()
            os.fsync(file.fileno())


def _publish(moves: list[tuple[Path, Path]]) -> None:
    """Renames all, or none; the data folder comes last."""
    done: list[tuple[Path, Path]] = []
    try:
        for staged, target in moves:
            for folder in reversed(target.parents):
                folder.mkdir(mode=0o700, exist_ok=True)
            if target.parent.name == "users" and not (target.parent.parent / data_folder.FORMAT_FILE).exists():
                data_folder.mark(target.parent.parent)
            staged.rename(target)
            done.append((staged, target))
        for _, target in done:
            sync_folder(target.parent)
    except BaseException:
        for staged, target in reversed(done):
            target.rename(staged)
        raise
