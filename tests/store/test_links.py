"""A folder in which a link is in the place of a file is read, and neither written nor proved clean."""

import shutil

import corpora
import memories
import pytest

from precog.errors import CorpusError
from precog.store import CorpusStore, Needles, search_folder
from precog.store.memory import MemoryStore

PARTS = [
    "000001",
    "000001/segments",
    "000001/segments/000000.seg",
    "000001/catalogue.sqlite",
    "000001/dense.index",
    "precog.json",
    "lock",
]


def filled(kind, path):
    with kind.create(path) as store:
        kind.fill(store, range(3)) if kind is memories else kind.fill(store, 2)
    (path / "000001/dense.index").write_bytes(b"an index")


def moved_away(path, part):
    away = path.parent / "elsewhere"
    (path / part).rename(away)
    (path / part).symlink_to(away)


def contents(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("kind", "store", "name"), [(corpora, CorpusStore, "corpus"), (memories, MemoryStore, "memory")]
)
@pytest.mark.parametrize("part", PARTS)
def test_a_link_in_the_place_of_a_file_is_named_and_nothing_is_written(tmp_path, kind, store, name, part):
    path = tmp_path / "folder"
    filled(kind, path)
    with store.open(path) as opened:
        before = opened.checksum()
    moved_away(path, part)
    found = contents(tmp_path)
    with pytest.raises(CorpusError, match=f"a {name} is not written.* through a link") as caught:
        store.open(path, write=True)
    assert caught.value.given == f"{path / part} → {tmp_path / 'elsewhere'}"
    assert "\n" not in str(caught.value)
    with pytest.raises(CorpusError, match="through a link"):
        search_folder(path, Needles([b"nobody ever said this"]))
    assert contents(tmp_path) == found
    with store.open(path) as opened:
        assert opened.checksum() == before


def test_the_folder_itself_and_links_of_others_in_it_may_be_links(tmp_path):
    filled(memories, tmp_path / "real")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "real/notes").symlink_to(tmp_path)
    with MemoryStore.open(tmp_path / "linked", write=True) as store:
        memories.fill(store, [7])
    assert search_folder(tmp_path / "linked", Needles([memories.text_of(7).encode()])).hits == 1


@pytest.mark.parametrize("kind", [corpora, memories])
def test_nothing_is_made_through_a_link(tmp_path, kind):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/000001").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CorpusError, match="through a link"):
        kind.create(tmp_path / "folder")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    shutil.rmtree(tmp_path / "folder")
    kind.create(tmp_path / "folder").close()
