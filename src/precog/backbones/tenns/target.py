"""Where a model or an adapter is written: a folder of its own, which appears whole or not at all.

A folder is a model (``precog.json``) or an adapter (``adapter.json``), never both. What a run wrote before may be
replaced, what somebody else put there never is.
"""

import errno
import fcntl
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from precog.errors import ModelError, StorageError, UsageError

CARDS = {"model": "precog.json", "adapter": "adapter.json"}
_FILES = {
    "model": re.compile(r"config\.json|precog\.json|model(-\d{5}-of-\d{5})?\.safetensors"),
    "adapter": re.compile(r"adapter\.json|adapter\.safetensors"),
}
_CLAIMED = {"model": re.compile(r"config\.json|precog\.json|model.*\.safetensors"), "adapter": _FILES["adapter"]}
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}


def check_one_kind(folder: Path) -> None:
    """Raises ModelError when a folder says that it is both a model and an adapter."""
    if all((folder / card).is_file() for card in CARDS.values()):
        raise ModelError(
            "this folder is both a model and an adapter",
            given=folder,
            expected=f"either {CARDS['model']} or {CARDS['adapter']}",
            hint="move one of the two into a folder of its own",
        )


def refuse_existing(folder: Path, *sources: Path) -> None:
    """Whether something new may be made at a path.

    Args:
        folder: the path.
        sources: folders that it is made of.

    Raises:
        UsageError: there is anything at the path, it names no folder, or it lies inside a source.
    """
    if os.path.lexists(folder):
        raise UsageError("the output exists already", given=folder, hint="name a folder that does not exist")
    if folder.name in ("", ".."):
        raise UsageError("the output has no name", given=folder, expected="a folder that does not exist")
    place = folder.resolve()
    for source in sources:
        if place.is_relative_to(source.resolve()):
            raise UsageError("the output lies inside what it is made of", given=folder, hint="name another folder")


def refuse_foreign(folder: Path, kind: str) -> None:
    """Whether a run may write its result at a path: it is free, or holds an earlier result, or nothing of that name.

    Args:
        folder: the path.
        kind: ``model`` or ``adapter``.

    Raises:
        UsageError: it may not.
    """
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise UsageError("the output is no folder", given=folder, hint="choose another one")
    other = CARDS["adapter" if kind == "model" else "model"]
    names = {path.name for path in folder.iterdir()}
    own = CARDS[kind] in names
    foreign = {name for name in names if _CLAIMED[kind].fullmatch(name) and not (own and _FILES[kind].fullmatch(name))}
    foreign |= names & {other}
    if foreign:
        raise UsageError(
            f"the output holds files that are not of {'an' if kind == 'adapter' else 'a'} {kind} written before",
            given=f"{folder}: {', '.join(sorted(foreign)[:3])}",
            hint="choose another folder; nothing was changed",
        )


@contextmanager
def written(folder: Path, kind: str, *, replace: bool) -> Iterator[Path]:
    """Inside, an empty folder to write files into; at its end they are at ``folder``, safe from a power cut.

    Several processes may do this at once: each has a folder of its own, and without ``replace`` one of them wins.

    Args:
        folder: where they go.
        kind: ``model`` or ``adapter``.
        replace: what was written there before is replaced file by file, the card last; else nothing may be there.

    Raises:
        UsageError: what is there may not be replaced.
        StorageError: the disk is full or refuses, or somebody else wrote there meanwhile.
    """
    if replace:
        refuse_foreign(folder, kind)
    temporary: Path | None = None
    descriptor = -1
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder.parent):  # a folder that is there and not yet locked would be swept by another writer
            _sweep(folder)
            temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
            temporary.mkdir()
            descriptor = os.open(temporary, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks: then what a killed process leaves is not swept
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
        for path in temporary.iterdir():
            path.chmod(0o644)
            sync(path)
        _publish(temporary, folder, kind, replace=replace)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"the {kind} could not be written: {folder}: {error}") from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, folder: Path, kind: str, *, replace: bool) -> None:
    if replace and folder.is_dir():
        refuse_foreign(folder, kind)
        fresh = {path.name for path in temporary.iterdir()}
        for name in sorted(fresh, key=lambda name: name == CARDS[kind]):
            (temporary / name).replace(folder / name)
        for path in folder.iterdir():
            if _FILES[kind].fullmatch(path.name) and path.name not in fresh:
                path.unlink()
        sync(folder)
    else:
        try:
            temporary.rename(folder)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            hint = "nothing of it was changed; name a folder that does not exist"
            raise StorageError("something else was written there meanwhile", given=folder, hint=hint) from error
    sync(folder.parent)


@contextmanager
def _alone_in(parent: Path) -> Iterator[None]:
    """Inside, no other writer sweeps this folder or makes its own in it."""
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Removes what killed processes left of the same folder; what a living one writes is locked."""
    ours = re.compile(re.escape(f".{folder.name}.") + r"[0-9a-f]{8}\.partial")
    for path in folder.parent.glob(f".{glob.escape(folder.name)}.*.partial"):
        if not ours.fullmatch(path.name):
            continue
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def sync(path: Path) -> None:
    """Wait until the disk has a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
