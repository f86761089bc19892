from pathlib import Path

import pytest
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import BusyError
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
        patch.setattr("shutil.rmtree", lambda folder: (_ for _ in ()).throw(KeyboardInterrupt))
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
