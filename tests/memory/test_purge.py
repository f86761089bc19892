import os
from pathlib import Path

import pytest
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import BusyError, CorpusError
from precog.memory.deposit import deposit
from precog.memory.place import existing_folder, make_place, memory_folder
from precog.memory.purge import purge


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fill(home: Path, user: str, backbone: TennsBackbone) -> Path:
    folder = memory_folder(home, user)
    make_place(folder)
    with open_memory(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(f"{user} has a red boat.")))
    return folder


def test_one_user_goes_and_the_other_keeps_every_byte(tmp_path, backbone: TennsBackbone):
    ana, ben = (fill(tmp_path, user, backbone) for user in ("ana", "ben"))
    before = bytes_of(ben)
    done = purge(ana)
    assert done.num_files > 0
    assert not ana.exists()
    assert bytes_of(ben) == before
    assert [path.name for path in (tmp_path / "memory").iterdir()] == [ben.name]
    assert fill(tmp_path, "ana", backbone) == ana  # and may begin again


def test_a_memory_that_is_written_to_is_not_purged(tmp_path, backbone: TennsBackbone):
    folder = fill(tmp_path, "ana", backbone)
    before = bytes_of(folder)
    with open_memory(folder, backbone), pytest.raises(BusyError):
        purge(folder, wait_sec=0.0)
    assert bytes_of(folder).keys() == before.keys()


def test_an_interrupted_purge_is_ended_by_the_next(tmp_path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch):
    ana, ben = (fill(tmp_path, user, backbone) for user in ("ana", "ben"))
    with monkeypatch.context() as patch:
        patch.setattr("precog.memory.purge._remove_folders", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            purge(ana)
    assert not ana.exists()
    purge(ben)
    assert not list((tmp_path / "memory").iterdir())


def test_a_folder_does_not_say_whose_it_is(tmp_path):
    assert "ana" not in memory_folder(tmp_path, "ana").name
    assert memory_folder(tmp_path, "ana") != memory_folder(tmp_path, "Ana")
    with pytest.raises(Exception, match="there is no memory of this user"):
        existing_folder(tmp_path, "ana")


def test_a_memory_that_is_a_link_is_refused_before_anything_is_touched(tmp_path, backbone: TennsBackbone):
    ana, ben = (fill(tmp_path, user, backbone) for user in ("ana", "ben"))
    elsewhere = tmp_path / "elsewhere"
    ana.rename(elsewhere)
    ana.symlink_to(elsewhere)
    before = bytes_of(elsewhere)
    with pytest.raises(CorpusError, match="through a link"):
        purge(ana)
    assert bytes_of(elsewhere) == before
    assert ana.is_symlink()
    assert not purge(ben).leftovers
    assert [path.name for path in (tmp_path / "memory").iterdir()] == [ana.name]


@pytest.mark.parametrize("part", ["000001", "000001/segments", "000001/catalogue.sqlite"])
def test_a_part_that_is_a_link_is_refused_before_anything_is_touched(part: str, tmp_path, backbone: TennsBackbone):
    ana = fill(tmp_path, "ana", backbone)
    (ana / part).rename(tmp_path / "elsewhere")
    (ana / part).symlink_to(tmp_path / "elsewhere")
    before = bytes_of(tmp_path)
    with pytest.raises(CorpusError, match="through a link"):
        purge(ana)
    assert bytes_of(tmp_path) == before


def test_what_an_earlier_purge_has_left_does_not_stop_this_one(tmp_path, backbone: TennsBackbone):
    ana, ben = (fill(tmp_path, user, backbone) for user in ("ana", "ben"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/mine.txt").write_text("mine")
    for name in (ana.name, "0" * 32):
        (tmp_path / "memory" / f".purged-{name}").symlink_to(tmp_path / "elsewhere")
    for folder in (ana, ben):
        done = purge(folder)
        assert done.num_files > 0
        for name, line in zip(sorted(("0" * 32, ana.name)), done.leftovers, strict=True):
            assert f".purged-{name}" in line
        assert not folder.exists()
    assert (tmp_path / "elsewhere/mine.txt").read_text() == "mine"
    assert all(path.is_symlink() for path in (tmp_path / "memory").iterdir())


def test_a_leftover_that_cannot_be_removed_is_told_with_its_own_path(
    tmp_path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
):
    ana, ben = (fill(tmp_path, user, backbone) for user in ("ana", "ben"))
    left = ana.with_name(f".purged-{ana.name}")
    ana.rename(left)
    unlink = Path.unlink

    def stubborn(path: Path, missing_ok: bool = False) -> None:
        if path.parent.parent == left and path.name == "catalogue.sqlite":
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stubborn)
        [line] = purge(ben).leftovers
    assert str(left / "000001/catalogue.sqlite") in line
    assert not ben.exists()
    assert not any((left / "000001/catalogue.sqlite").read_bytes())
    fill(tmp_path, "ben", backbone)
    assert purge(ben).leftovers == []
    assert not list((tmp_path / "memory").iterdir())


def test_a_folder_that_is_no_memory_is_not_purged(tmp_path):
    folder = memory_folder(tmp_path, "ana")
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    for name in ("mine.txt", "precog.json"):
        with pytest.raises(CorpusError, match="not a memory"):
            purge(folder)
        assert (folder / "mine.txt").read_text() == "mine"
        (folder / "precog.json").write_text('{"corpus": "precog", "format": 1, "current": "000001"}')
        assert name in {path.name for path in folder.iterdir()}
    assert {path.name for path in folder.iterdir()} == {"mine.txt", "precog.json"}


@pytest.mark.parametrize("left", ["lock", "000001/catalogue.sqlite", "000001/segments", "marker"])
def test_what_a_creation_has_left_half_way_is_purged(left: str, tmp_path, backbone: TennsBackbone):
    folder = memory_folder(tmp_path, "ana")
    if left == "marker":
        fill(tmp_path, "ana", backbone)
        (folder / "precog.json").unlink()
    elif "." in left or left == "lock":
        (folder / left).parent.mkdir(parents=True)
        (folder / left).touch()
    else:
        (folder / left).mkdir(parents=True)
    purge(folder)
    assert not list((tmp_path / "memory").iterdir())


def test_foreign_files_stay_and_are_named(tmp_path, backbone: TennsBackbone):
    ana = fill(tmp_path, "ana", backbone)
    foreign = [ana / "mine.txt", ana / "000001/notes.txt", ana / "000001/segments/x.bin", ana / "photos/a.jpg"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    done = purge(ana)
    assert done.kept == [str(ana / n) for n in ("000001/notes.txt", "000001/segments/x.bin", "mine.txt", "photos")]
    assert sorted(bytes_of(ana)) == sorted(str(path.relative_to(ana)) for path in foreign)
    with pytest.raises(CorpusError, match=r"not a memory.*notes\.txt"):
        purge(ana)


def test_the_bytes_of_a_file_with_another_name_are_not_overwritten(tmp_path, backbone: TennsBackbone):
    ana = fill(tmp_path, "ana", backbone)
    backup = tmp_path / "backup"
    backup.mkdir()
    before = (ana / "000001/catalogue.sqlite").read_bytes()
    os.link(ana / "000001/catalogue.sqlite", backup / "c")
    done = purge(ana)
    assert (backup / "c").read_bytes() == before
    assert not ana.exists()
    assert done.num_linked == 1
    assert "1 of the files under another name" in done.outside[0]
