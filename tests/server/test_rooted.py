"""Files that are read by their path, and what is put in their way between the look and the reading."""

import os
from pathlib import Path

import pytest
from corpora_of import code_of, make
from served import client_of, services_of, settings_in

from precog.encoders import Encoder
from precog.errors import DocumentError
from precog.records import ModelChoice
from precog.server.rooted import rooted
from precog.text.sources import Source


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("root/below", "outside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.txt").write_text(folder)
    return tmp_path / "root"


@pytest.fixture
def source(root: Path) -> Source:
    [found] = rooted([Source("a", root / "below" / "a.txt")], [root])
    return found


def test_a_file_below_is_read(source: Source) -> None:
    with source.open() as stream:
        assert stream.read() == b"root/below"
        assert source.version(stream) != (0, 0, 0)


def test_a_link_within_is_read_where_it_leads(root: Path) -> None:
    (root / "link.txt").symlink_to("below/a.txt")
    [found] = rooted([Source("link", root / "link.txt")], [root])
    with found.open() as stream:
        assert stream.read() == b"root/below"


def test_what_is_elsewhere_is_left_out(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path / "outside")
    sources = [Source("out", root / "out" / "a.txt"), Source("up", root / ".." / "outside" / "a.txt")]
    assert rooted(sources, [root]) == ()


@pytest.mark.parametrize("swapped", ["a.txt", ""])
def test_a_link_that_is_put_in_its_way_is_not_followed(
    source: Source, root: Path, tmp_path: Path, swapped: str
) -> None:
    way = root / "below" / swapped
    way.rename(tmp_path / "away")
    way.symlink_to(tmp_path / "outside" / swapped)
    with pytest.raises(DocumentError):
        source.open()


def test_a_pipe_that_is_put_in_its_place_is_not_waited_for(source: Source, root: Path) -> None:
    path = root / "below" / "a.txt"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DocumentError, match="it cannot be opened"):
        source.open()


def test_a_file_that_is_gone_is_told(source: Source, root: Path) -> None:
    (root / "below" / "a.txt").unlink()
    with pytest.raises(DocumentError):
        source.open()


def test_a_pipe_is_not_read_by_its_path(choice: ModelChoice, encoder: Encoder, root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe")
    settings = settings_in(tmp_path, allow_roots=(root,))
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        make(client)
        answer = client.post("/v1/corpora/papers/ingest", json={"paths": [str(root / "pipe")]})
        assert code_of(answer) == (400, "input")
