"""What all plug-ins share: opened when needed, answers as they come, nothing left open after errors."""

import shutil
import threading
from pathlib import Path

import pytest

from precog.cli.main import main
from precog.engine import Sampling
from precog.errors import CancelledError, InputError, PrecogError, UsageError
from precog.memory.selection import Selection
from precog.memory.utterance import Utterance
from precog.plugins.knowledge import Asking, Knowledge, Told

FREE = Asking(free=True, max_tokens=6)


def test_nothing_is_opened_before_it_is_used(tmp_path: Path) -> None:
    with Knowledge(tmp_path / "none", "ana", model="no-such-model"):
        pass
    with pytest.raises(UsageError):
        Knowledge(user=" ")


@pytest.mark.parametrize("way", ["corpus", "alone"])
def test_pieces_are_the_answer(corpus: str, way: str) -> None:
    with Knowledge(corpus if way == "corpus" else None) as knowledge:
        *pieces, told = knowledge.stream("Who built the lighthouse?", FREE)
        assert isinstance(told, Told)
        assert "".join(map(str, pieces)) == told.text != ""
        assert len(pieces) > 1
        assert knowledge.ask("Who built the lighthouse?", FREE).text == told.text
    assert bool(told.passages) is (way == "corpus")


def test_pieces_of_an_answer_from_a_memory_are_the_answer() -> None:
    with Knowledge(user="ana") as knowledge:
        knowledge.remember([Utterance("Ada Quill built the lighthouse of Marrow in 1843.", None)])
        for how, fewest in ((Asking(free=True), 2), (Asking(always_answer=True), 1)):
            *pieces, told = knowledge.stream("Who built the lighthouse of Marrow?", how)
            assert isinstance(told, Told)
            assert "".join(map(str, pieces)) == told.text != ""
            assert len(pieces) >= fewest


def test_the_model_alone_reads_what_was_said_before() -> None:
    with Knowledge() as knowledge:
        how = Asking(max_tokens=4)
        alone = knowledge.ask("Who?", how)
        after = knowledge.ask("Who?", how, before=["Ada Quill built it.", " "])
        assert after.details["tokens_processed"] > alone.details["tokens_processed"]  # type: ignore[operator]
        seeded = [knowledge.ask("Who?", Asking(max_tokens=6, sampling=Sampling(1.0, seed=n))).text for n in (1, 1, 2)]
        assert seeded[0] == seeded[1] != seeded[2]


def test_whoever_leaves_stops_the_model(corpus: str) -> None:
    with Knowledge(corpus) as knowledge:
        pieces = knowledge.stream("Who?", Asking(free=True, max_tokens=4_000))
        next(pieces)
        pieces.close()
        assert "answer" not in [thread.name for thread in threading.enumerate()]
        assert knowledge.ask("Who?", Asking(always_answer=True)).text


def test_errors_reach_whoever_waits_for_pieces(tmp_path: Path) -> None:
    for knowledge in (Knowledge(tmp_path / "none"), Knowledge(tmp_path / "none", "ana")):
        with pytest.raises(PrecogError):
            next(knowledge.stream("Who?"))
    with pytest.raises(UsageError, match="question is empty"):
        Knowledge().ask(" ")
    with pytest.raises(UsageError, match="which corpus"):
        Knowledge().search("x", 1)
    with pytest.raises(UsageError, match="whose memory"):
        Knowledge().recall("x", 1)
    with pytest.raises(UsageError, match="neither sampled"):
        Knowledge(user="ana").ask("Who?", Asking(max_tokens=3))


def test_a_corpus_that_was_replaced_is_opened_again(corpus: str, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shutil.copytree(corpus, folder)
    with Knowledge(folder) as knowledge:
        assert knowledge.search("lighthouse", 1)
        shutil.rmtree(folder)
        with pytest.raises(PrecogError):
            knowledge.search("lighthouse", 1)
        shutil.copytree(corpus, folder)
        assert knowledge.search("lighthouse", 1)


def test_a_corpus_that_was_made_anew_is_answered_from_at_once(corpus: str, tmp_path: Path) -> None:
    folder, another = tmp_path / "c", tmp_path / "another"
    shutil.copytree(corpus, folder)
    (tmp_path / "text.txt").write_text("The bridge of Sorrel was built in 1901 by Ben Tarn.")
    with pytest.raises(SystemExit):
        main(["index", str(tmp_path / "text.txt"), "--corpus", str(another)])
    with Knowledge(folder) as knowledge:
        how = Asking(always_answer=True)
        assert "Ada Quill" in knowledge.ask("Who built it?", how).passages[0].text
        assert knowledge.search("Who built it?", 1)
        shutil.rmtree(folder)
        another.rename(folder)
        assert "Ben Tarn" in knowledge.ask("Who built it?", how).passages[0].text
        assert "Ben Tarn" in str(knowledge.search("Who built it?", 1)[0]["text"])


def test_remembering_stops_when_it_is_told_and_keeps_what_is_complete() -> None:
    said = [Utterance(f"I saw bird number {n}.", None) for n in range(3)]
    stopped = threading.Event()
    with Knowledge(user="ana") as knowledge:
        assert knowledge.remember(said[:1], stopped=stopped)["ids"] == [1]
        stopped.set()
        with pytest.raises(CancelledError, match="stopped"):
            knowledge.remember(said, stopped=stopped)
        assert [turn.text for turn in knowledge.turns(None)] == ["I saw bird number 0."]


def test_long_turns_come_back_whole_and_in_order(home: Path) -> None:
    long = " ".join(f"Sentence number {n} tells of Lisbon and of its river." for n in range(60))
    with Knowledge(user="ana") as knowledge:
        assert knowledge.turns(None) == []
        assert knowledge.passages("Lisbon", 2) == []
        done = knowledge.remember([Utterance("I am Ana.", None, "Ana"), Utterance(long, None, "Ana")])
        assert len(done["ids"]) > 2  # type: ignore[arg-type]
        assert [turn.text for turn in knowledge.turns(None)] == ["I am Ana.", long]
        assert [turn.text for turn in knowledge.turns(1)] == [long]
        assert knowledge.passages("Lisbon river", 2)[0].metadata["speaker"] == "Ana"
        with pytest.raises(InputError):
            knowledge.forget(Selection(ids=(999,)))
        knowledge.forget(Selection(everything=True), proof=False)
        assert knowledge.turns(None) == []


def test_many_threads_may_ask_at_once(corpus: str) -> None:
    with Knowledge(corpus, "ana") as knowledge:
        knowledge.remember([Utterance("Clara moved to Lisbon.", None)])
        found: list[str] = []

        def work(number: int) -> None:
            if number % 2:
                found.append(knowledge.ask("Where did Clara move?", Asking(always_answer=True)).text)
            else:
                found.append(knowledge.search("lighthouse", 1)[0]["text"])  # type: ignore[arg-type]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6
    assert len(set(found)) == 2
