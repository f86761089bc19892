"""Corpora that stay open: shared, closed in the end, and never an old one for a new one."""

import shutil
import threading
from pathlib import Path

import pytest

from precog.corpus.indexing import IndexRequest, create_corpus, index_documents
from precog.corpus.reindex import ReindexRequest, reindex
from precog.corpus.search import Searcher
from precog.encoders import Encoder
from precog.errors import CorpusError, MissingError
from precog.records import ModelChoice
from precog.server.open_corpora import OpenCorpora


@pytest.fixture
def folders(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> list[Path]:
    made = [tmp_path / name for name in ("a", "b", "c")]
    for folder in made:
        create_corpus(IndexRequest((), folder, choice, encoder))
    return made


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the folders whose searchers were closed."""
    found: list[str] = []
    close = Searcher.close

    def noted(searcher: Searcher) -> None:
        found.append(searcher.store.path.name)
        close(searcher)

    monkeypatch.setattr(Searcher, "close", noted)
    return found


def test_one_searcher_serves_all_at_once(folders: list[Path], encoder: Encoder, closed: list[str]) -> None:
    corpora = OpenCorpora(encoder)
    found: set[Searcher] = set()
    together = threading.Barrier(4)

    def use() -> None:
        with corpora.searching(folders[0]) as searcher:
            together.wait(300)
            found.add(searcher)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    assert closed == []
    corpora.close()
    assert closed == ["a"]


def test_those_not_used_for_longest_are_closed(folders: list[Path], encoder: Encoder, closed: list[str]) -> None:
    corpora = OpenCorpora(encoder, most=2)
    a, b, c = folders
    for folder in (a, b, a, c):
        with corpora.searching(folder):
            pass
    assert closed == ["b"]
    with corpora.searching(a), corpora.searching(b), corpora.searching(c):
        assert closed == ["b", "c"]  # what is in use stays open, however many there are
    assert closed == ["b", "c", "c"]


def test_what_is_dropped_is_closed_by_its_last_user(folders: list[Path], encoder: Encoder, closed: list[str]) -> None:
    corpora = OpenCorpora(encoder)
    with corpora.searching(folders[0]) as before:
        corpora.drop(folders[0])
        assert closed == []
        with corpora.searching(folders[0]) as after:
            assert after is not before
    assert closed == ["a"]


def test_a_replaced_corpus_is_opened_again(folders: list[Path], encoder: Encoder, choice: ModelChoice) -> None:
    corpora = OpenCorpora(encoder)
    with corpora.searching(folders[0]) as before:
        assert before.settings.codec == "fp16"
    reindex(ReindexRequest(folders[0], choice, encoder, {"codec": "int8"}))
    with corpora.searching(folders[0]) as after:
        assert after.settings.codec == "int8"


def test_what_is_closed_to_all_waits_for_those_within(folders: list[Path], encoder: Encoder) -> None:
    corpora = OpenCorpora(encoder)
    inside, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def use() -> None:
        with corpora.searching(folders[0]):
            inside.set()
            leave.wait(300)
            order.append("used")

    thread = threading.Thread(target=use)
    thread.start()
    assert inside.wait(300)
    threading.Timer(0.05, leave.set).start()
    with corpora.closed(folders[0], 30.0):
        order.append("closed")
        with pytest.raises(MissingError), corpora.searching(folders[0]):
            pass
    thread.join()
    assert order == ["used", "closed"]
    with corpora.searching(folders[0]):
        pass


def test_nothing_is_kept_of_what_cannot_be_opened(tmp_path: Path, folders: list[Path], encoder: Encoder) -> None:
    corpora = OpenCorpora(encoder)
    with pytest.raises(CorpusError), corpora.searching(tmp_path / "none"):
        pass
    with corpora.searching(folders[0]):
        shutil.rmtree(folders[0])
    with pytest.raises(CorpusError), corpora.searching(folders[0]):
        pass


def test_one_searcher_looks_by_any_way_and_sees_what_is_new(
    folders: list[Path], encoder: Encoder, choice: ModelChoice, tmp_path: Path
) -> None:
    (tmp_path / "malta.txt").write_text("The capital of Malta is Valletta.")
    with OpenCorpora(encoder).searching(folders[0]) as searcher:
        assert searcher.search("Valletta", 3).found == []
        index_documents(IndexRequest((str(tmp_path / "malta.txt"),), folders[0], choice, encoder))
        by_words = searcher.search("Valletta", 3, retrieval="bm25")
        assert by_words.key is None
        [hit] = by_words.found
        assert (hit.hit.dense, hit.hit.lexical > 0) == (0.0, True)
        assert searcher.search("the main town", 3, retrieval="dense").found[0].hit.lexical == 0.0
        assert searcher.search("Valletta", 3).found[0].hit.dense > 0
