"""The turn before lends its words, and takes them back when it is forgotten."""

import datetime
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_memory import MORNING, chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.index import HybridIndex
from precog.index.hybrid import LEXICAL_FILE
from precog.index.words import term_hashes
from precog.memory.deposit import deposit
from precog.memory.forget import forget
from precog.memory.preceding import NEAR, Said, followers, preceding, reply_to, word_texts
from precog.memory.recall import Recaller, index_source, refresh_index
from precog.memory.reindex import reindex
from precog.memory.utterance import Utterance
from precog.records import ModelChoice
from precog.store.memory import Deposit, DepositInfo

TALK = ["Which walnut did you like best?", "The one from Grenoble.", "And the aubergine?", "Never again!"]
PARTS = st.tuples(st.integers(0, 3), st.sampled_from([None, 0, 30, 59, 61, 180]), st.sampled_from("ab"))


def one(words: str, minute: int | None = 0, speaker: str = "a", part: int = 0, num_parts: int = 1) -> Said:
    time = None if minute is None else MORNING + datetime.timedelta(minutes=minute)
    return Said(words, time, speaker, part, num_parts)


def before(*turns: Said) -> list[str | None]:
    return [None if found is None else found.words for found in preceding(turns)]


def test_the_turn_before_is_of_the_same_conversation() -> None:
    hour = int(NEAR.total_seconds() / 60)
    assert before(one("x"), one("y"), one("z", hour), one("later", 2 * hour + 1)) == [None, "x", "y", None]
    assert before(one("x", 5), one("earlier", 4), one("unknown", None), one("too", None)) == [
        None,
        None,
        None,
        "unknown",
    ]


def test_the_parts_of_a_turn_follow_the_turn_before() -> None:
    parts = [one(f"part {n}", 3, "b", n, 3) for n in range(3)]
    assert before(one("x"), *parts, one("y", 4)) == [None, "x", "x", "x", "part 2"]
    assert before(one("x"), *parts[1:], one("y", 4)) == [None, "x", "x", "part 2"]
    assert before(*parts, *parts) == [None, None, None, "part 2", "part 2", "part 2"]
    assert before(*parts, replace(parts[2], speaker="a")) == [None, None, None, "part 2"]


def stored(number: int, drawn: tuple[int, int | None, str]) -> Deposit:
    part, minute, speaker = drawn
    time = None if minute is None else MORNING + datetime.timedelta(minutes=minute)
    info = DepositInfo(
        bytes(32), "x", "", f"says {number}", 1, "social", "music", 1.0, 0.0, 0.0, time, speaker,
        details={"part": part, "num_parts": 4},
    )  # fmt: skip
    return Deposit(number, info)


@given(st.lists(PARTS, min_size=1, max_size=9), st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)))
def test_whatever_changes_is_told(drawn: list[tuple[int, int | None, str]], old: set[int], now: set[int]) -> None:
    every = [stored(number, entry) for number, entry in enumerate(drawn, 1)]
    first, second = (dict(word_texts(d for d in every if d.id in there)) for there in (old, now))
    changed = sorted(set(first) ^ set(second))
    told = set(followers((d for d in every if d.id in now), changed)) if changed else set()
    assert {number for number in first.keys() & second.keys() if first[number] != second[number]} <= told
    assert told <= second.keys()


def lexical(memory) -> HybridIndex:
    source = index_source(memory.store, memory.settings.encoder_fingerprint)
    index, problem = HybridIndex.open(memory.store.folder, source)
    assert problem is None
    return index.lexical


def postings(memory) -> list[bytes]:
    found = lexical(memory)
    return [part.tobytes() for part in (found._words, found._starts, found._rows, found._counts, found._lengths)]


def made(folder, backbone: TennsBackbone, utterances: list[Utterance]):
    memory = open_memory(folder, backbone, chunk_tokens=96)
    deposit(memory, chunks(memory, utterances))
    refresh_index(memory.store, memory.settings.encoder_fingerprint)
    return memory


def test_an_answer_is_found_by_what_was_asked_until_that_is_forgotten(tmp_path, backbone: TennsBackbone) -> None:
    walnut = term_hashes("walnut").tobytes()
    with (
        made(tmp_path / "a", backbone, said(*TALK)) as memory,
        made(tmp_path / "b", backbone, said(*TALK)[1:]) as never,
    ):
        recaller = Recaller(memory.store, memory.encoder)
        assert lexical(memory).scores("walnut").astype(bool).tolist() == [True, True, False, False]
        assert {entry.deposit.id for entry in recaller.recall("walnut", 2).evidence} == {1, 2}
        assert walnut in (memory.store.folder / LEXICAL_FILE).read_bytes()
        report = forget(memory, list(memory.store.deposits(ids=[1])), proof=True)
        assert report.hits == 0
        assert postings(memory) == postings(never)
        assert not any(walnut in path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file())
        assert not lexical(memory).scores("walnut").any()


def test_what_is_superseded_lends_no_words_and_lends_them_again(tmp_path, backbone: TennsBackbone) -> None:
    with (
        made(tmp_path / "a", backbone, said(*TALK)) as memory,
        made(tmp_path / "b", backbone, said(*TALK)[:3]) as never,
    ):
        with memory.store.batch() as batch:
            batch.supersede(1, 4, at=1.0)
        refresh_index(memory.store, memory.settings.encoder_fingerprint)
        assert not lexical(memory).scores("walnut").any()
        forget(memory, list(memory.store.deposits(ids=[4])), proof=False)
        assert postings(memory) == postings(never)


TURNS = [*TALK, " ".join(f"We walked {n} miles to the village of Anse {n}." for n in range(12)), "Go on.", "Well."]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_files_that_were_updated_are_those_that_were_built(tmp_path_factory, backbone: TennsBackbone, data) -> None:
    folder = tmp_path_factory.mktemp("memory")
    with made(folder / "a", backbone, said(*TURNS[:3])) as memory:
        for _ in range(3):
            ids = [entry.id for entry in memory.store.deposits()]
            gone = data.draw(st.sets(st.sampled_from(ids), max_size=3)) if ids else set()
            with memory.store.batch() as batch:
                batch.delete_deposits(sorted(gone))
            left = [number for number in ids if number not in gone]
            if len(left) > 1:
                with memory.store.batch() as batch:
                    batch.supersede(left[0], left[1], at=1.0)
            deposit(memory, chunks(memory, data.draw(st.permutations(said(*TURNS)))[:3]))
            refresh_index(memory.store, memory.settings.encoder_fingerprint)
            updated = postings(memory)
            memory.store.drop_index()
            refresh_index(memory.store, memory.settings.encoder_fingerprint)
            assert postings(memory) == updated


def test_a_memory_that_is_read_again_finds_by_the_same_words(tmp_path, backbone: TennsBackbone, monkeypatch) -> None:
    with made(tmp_path / "a", backbone, said(*TURNS)) as memory:
        before, encoder = postings(memory), memory.encoder
    monkeypatch.setattr("precog.memory.reindex.load_encoder", lambda spec=None: encoder)
    choice = ModelChoice("", "cpu", None)
    monkeypatch.setattr(ModelChoice, "open", lambda self, default, mode, template, made_in: backbone)
    reindex(tmp_path / "a", choice)
    with open_memory(tmp_path / "a", backbone) as memory:
        assert postings(memory) == before


def test_probing_ranks_by_words_and_meaning(tmp_path, backbone: TennsBackbone) -> None:
    with made(tmp_path / "a", backbone, said(*TURNS)) as memory:
        recaller = Recaller(memory.store, memory.encoder)
        whole = recaller.recall("the walnut from Grenoble", 3)
        known = len(memory.store.subclusters())
        assert known > 2
        for probes in range(1, known):
            part = recaller.recall("the walnut from Grenoble", 3, probes=probes)
            assert len(part.groups) == probes
            held = [d.id for d in memory.store.deposits() if d.info.group in part.groups]
            assert part.fraction_searched == len(held) / memory.store.size().num_deposits
            assert {entry.deposit.id for entry in part.evidence} <= set(held)
            if whole.evidence[0].deposit.info.group in part.groups:
                assert part.evidence[0].deposit.id == whole.evidence[0].deposit.id
        with memory.store.batch() as batch:
            batch.supersede(part.evidence[0].deposit.id, part.evidence[1].deposit.id, at=1.0)
        again = recaller.recall("the walnut from Grenoble", 3, probes=known - 1)
        assert part.evidence[0].deposit.id not in {entry.deposit.id for entry in again.evidence}
        assert np.isclose(sum(entry.score <= 1 for entry in again.evidence), len(again.evidence))


def test_the_reply_is_what_somebody_else_says_next() -> None:
    asked = Said("Bo: What breed?", MORNING, "Bo", 0, 1)
    near, late = MORNING + datetime.timedelta(minutes=1), MORNING + datetime.timedelta(hours=3)

    def found(*later: Said) -> str | None:
        return reply_to(asked, ((one.words, one) for one in later))

    assert found(Said("Ana: A beagle.", near, "Ana", 0, 1)) == "Ana: A beagle."
    assert found(Said("A beagle.", near, None, 0, 1)) == "A beagle."
    assert found(Said("Bo: I mean the dog.", near, "Bo", 0, 1), Said("Ana: A beagle.", near, "Ana", 0, 1)) is None
    assert found(Said("Ana: Good evening.", late, "Ana", 0, 1)) is None
    assert found() is None
    long = Said("Bo: first half", MORNING, "Bo", 0, 2)
    rest, reply = Said("Bo: second half?", MORNING, "Bo", 1, 2), Said("Ana: Yes, so.", near, "Ana", 0, 1)
    assert reply_to(long, [("rest", rest), ("reply", reply)]) == "reply"
