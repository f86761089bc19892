"""What others do to a memory while a conversation has it open."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from made_keys import CountingEncoder
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import BusyError, CorpusError
from precog.memory import reindex as reindex_room
from precog.memory.deposit import deposit
from precog.memory.purge import purge
from precog.memory.reindex import reindex
from precog.records import ModelChoice
from precog.session import Session, memory_side
from precog.store.folder import WriterLock
from precog.store.memory import MemoryStore

Opened = Callable[..., Session]
FACT = "My sister Clara moved to Lisbon in March."


def fill(folder: Path, backbone: TennsBackbone) -> None:
    with open_memory(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(FACT)))


def texts(folder: Path) -> list[str]:
    with MemoryStore.open(folder) as store:
        return [deposit.info.text for deposit in store.deposits()]


def purged(folder: Path, backbone: TennsBackbone, choice: ModelChoice) -> None:
    purge(folder)


def begun_again(folder: Path, backbone: TennsBackbone, choice: ModelChoice) -> None:
    folder.rename(folder.with_name("kept"))  # so that the new one has another number for certain
    fill(folder, backbone)
    purge(folder.with_name("kept"))


def read_again(folder: Path, backbone: TennsBackbone, choice: ModelChoice) -> None:
    reindex(folder, choice, wanted={"codec": "fp32"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (purged, "the memory was purged meanwhile; given"),
        (begun_again, "the memory was purged meanwhile, and another one begun"),
        (read_again, "the memory was replaced meanwhile"),
    ],
)
@pytest.mark.parametrize("moment", ["between turns", "before the search", "before the deposit"])
def test_a_memory_that_is_gone_is_told_as_that(
    tmp_path: Path,
    session: Opened,
    choice: ModelChoice,
    backbone: TennsBackbone,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, TennsBackbone, ModelChoice], None],
    message: str,
    moment: str,
) -> None:
    monkeypatch.setattr(reindex_room, "load_encoder", lambda spec: CountingEncoder())
    folder = tmp_path / "memory" / "ana"
    fill(folder, backbone)
    with session(folder) as talk:
        talk.say("Where is Clara?")
        name = {"before the search": "recall", "before the deposit": "remember"}.get(moment)
        if name is None:
            change(folder, backbone, choice)
        else:
            method = getattr(talk.memory, name)
            once = iter([change])

            def changed(*arguments: object) -> object:
                for happen in once:
                    happen(folder, backbone, choice)
                return method(*arguments)

            monkeypatch.setattr(talk.memory, name, changed)
        for _ in range(2):
            with pytest.raises(CorpusError, match=message) as told:
                talk.say("Ben sold the boat.")
        assert "this turn is not remembered" in str(told.value)
    assert not folder.exists() if change is purged else texts(folder) == [FACT]


def test_a_conversation_is_opened_beside_a_writer(
    tmp_path: Path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "ana", backbone)
    monkeypatch.setattr(memory_side, "WAIT_SEC", 0.1)
    with MemoryStore.open(tmp_path / "ana", write=True), session(tmp_path / "ana") as talk:
        assert talk.say("Where did Clara move?").evidence[0].memory is not None
        with pytest.raises(BusyError, match="not remembered: say it again"):
            talk.say("Ben sold the boat.")
    with session(tmp_path / "ana") as talk:
        assert talk.say("Ben sold the boat.").remembered == 2


def test_nothing_is_made_where_nothing_is_kept(tmp_path: Path, session: Opened) -> None:
    folder = tmp_path / "home" / "memory" / "ana"
    with session(folder) as talk:
        assert talk.say("Where is Clara?").evidence == ()
        assert talk.start is not None
        assert talk.start.num_deposits == 0
    assert not (tmp_path / "home").exists()
    with session(folder) as talk:
        assert talk.say(FACT).remembered == 1
        assert talk.say("Where is Clara?").evidence[0].memory is not None
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]


def test_two_conversations_at_once_lose_nothing(tmp_path: Path, session: Opened) -> None:
    told = {name: [f"{name} number {n} went to the market." for n in range(6)] for name in ("Ana", "Ben")}
    with session(tmp_path / "ana") as first, session(tmp_path / "ana") as second:
        talkers = [
            threading.Thread(target=lambda talk=talk, name=name: [talk.say(text) for text in told[name]])
            for talk, name in ((first, "Ana"), (second, "Ben"))
        ]
        for talker in talkers:
            talker.start()
        for talker in talkers:
            talker.join()
        for talk in (first, second):
            found = [entry.memory for entry in talk.say("Ben number 3 went where?").evidence]
            # the turn after it, whoever's that is, is found by the same words
            assert told["Ben"][3] in [entry.deposit.info.text for entry in found if entry is not None]
    assert sorted(texts(tmp_path / "ana")) == sorted(told["Ana"] + told["Ben"])


def test_the_lock_of_a_folder_that_was_removed_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "ana"
    folder.mkdir()
    held = WriterLock(folder, 0.0)
    got: list[WriterLock] = []
    waiting = threading.Thread(target=lambda: got.append(WriterLock(folder, 300.0)))
    waiting.start()
    while not waiting.is_alive():
        pass
    threading.Event().wait(0.3)  # it has opened the old lock by now
    shutil.rmtree(folder)
    folder.mkdir()
    now = WriterLock(folder, 0.0)
    held.release()
    threading.Event().wait(0.3)
    assert not got
    now.release()
    waiting.join()
    got[0].release()
