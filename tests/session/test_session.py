import contextlib
import datetime
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from made_keys import CountingEncoder
from pretended_study import PretendedStudy
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.corpus.ingest import Ingest
from precog.corpus.settings import CorpusSettings
from precog.engine import Composing, answer_composed
from precog.engine.confidence import Calibration, Confidence
from precog.errors import EncoderError, UsageError
from precog.memory.deposit import deposit
from precog.memory.forget import forget
from precog.memory.reindex import reindex
from precog.memory.utterance import Utterance
from precog.records import ModelChoice
from precog.refine import focus as focus_module
from precog.refine import study as study_module
from precog.session import Session, SessionOptions, memory_side
from precog.session import session as session_module
from precog.store import CorpusStore
from precog.store.memory import MemoryStore
from precog.text.sources import find_sources
from precog.text.tokenizer import load_mistral_tokenizer

FACTS = ["My sister Clara moved to Lisbon in March.", "The car stands on level three of the garage."]


Opened = Callable[..., Session]


def make_corpus(
    folder: Path,
    docs: Path,
    backbone: TennsBackbone,
    encoder_spec: str = "",
    quality: str = "fast",
    study_steps: int = 0,
    text: str = "The ferry to the island leaves at nine from the old pier.",
    model: str = "",
) -> None:
    docs.mkdir()
    (docs / "boats.txt").write_text(text)
    encoder = CountingEncoder()
    settings = CorpusSettings(
        model, encoder_spec, encoder.fingerprint, chunk_tokens=64, quality=quality, study_steps=study_steps
    )
    layout = settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size)
    with CorpusStore.create(
        folder,
        settings=settings.to_json(),
        layout=layout,
        fingerprint=bytes.fromhex(backbone.fingerprint),
        key_dim=encoder.dim,
    ) as store:
        Ingest(store, backbone, encoder).run(find_sources([docs]), prune=False)


def test_a_fact_is_the_first_evidence_in_the_next_session(tmp_path, session: Opened):
    with session(tmp_path / "ana") as first:
        for fact in FACTS:
            assert first.say(fact).remembered is not None
    with session(tmp_path / "ana") as second:
        reply = second.say("Where did my sister Clara move?")
        assert reply.evidence[0].memory is not None
        assert reply.evidence[0].memory.deposit.info.text == FACTS[0]
        assert reply.evidence[0].weight == 1.0
        assert reply.remembered is None
        assert reply.exact
        again = second.say("Where did my sister Clara move?")
        assert (again.text, again.confidence) == (reply.text, reply.confidence)
    with session(tmp_path / "ben") as other:
        assert other.say("Where did my sister Clara move?").evidence == ()


def test_memory_and_corpus_are_searched_together(tmp_path, session: Opened, backbone: TennsBackbone):
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone)
    with session(tmp_path / "ana", tmp_path / "c", inject=2, top_k=2) as talk:
        talk.say(FACTS[1])
        reply = talk.say("When does the ferry leave, and where is the car on level three of the garage?")
        origins = {entry.to_json()["origin"] for entry in reply.evidence}
        assert origins == {"memory", "corpus"}
        assert sum(entry.weight for entry in reply.evidence) == pytest.approx(1.0)


@pytest.mark.parametrize("quality", ["fast", "study"])
def test_an_answer_from_a_refined_state_of_the_corpus_is_not_called_exact(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch, quality: str
):
    monkeypatch.setattr(study_module, "study", PretendedStudy())
    monkeypatch.setattr(study_module, "check_can_study", lambda _backbone: None)
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone, quality=quality, study_steps=3 * (quality == "study"))
    with session(tmp_path / "ana", tmp_path / "c") as talk:
        composition = talk.say("When does the ferry to the island leave?").to_json()["composition"]
        assert composition["members"][0]["origin"] == "corpus"
        assert (composition["exact"], composition["refined"]) == (quality == "fast", quality == "study")


@pytest.mark.parametrize("quality", ["fast", "study"])
def test_an_answer_from_a_studied_corpus_starts_from_the_mean_of_chunk_and_sentence(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch, quality: str
):
    text = "The ferry leaves at nine from the old pier. The kiosk sells ice cream and newspapers all day."
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone, quality=quality, text=text)
    given = []
    monkeypatch.setattr(
        session_module,
        "answer_composed",
        lambda *args, **named: given.append(args[1]) or answer_composed(*args, **named),
    )
    with session(tmp_path / "ana", tmp_path / "c") as talk:
        composition = talk.say("What does the kiosk sell?").to_json()["composition"]
    assert (composition["exact"], composition["refined"]) == (quality == "fast", False)
    read = [backbone.tokenizer.encode(part) for part in (text, text[text.index("The kiosk") :])]
    whole, part = (state.recurrent for state in backbone.encode_chunks(read))
    wanted = whole if quality == "fast" else (whole + part) / 2
    torch.testing.assert_close(given[0][0].recurrent, wanted, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("sure", [0, 1])
def test_a_conversation_asks_the_states_of_two_sentences_that_are_as_near(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch, sure: int
):
    parts = ("The ferry leaves at nine from the old pier.", "The kiosk opens at seven on the old quay.")
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone, quality="study", text=" ".join(parts))
    given, tokens = [], []

    def claims(_, rows, question_ids):
        tokens.append(len(rows) * len(question_ids))
        read = backbone.encode_chunks([backbone.tokenizer.encode(part) for part in parts])
        near = [
            [torch.allclose(row.recurrent, one.recurrent, atol=2e-3, rtol=2e-3) for one in read] for row in rows[2:]
        ]
        order = [row.index(True) for row in near]
        return [5.0 * (order[number % 2] == sure) for number in range(4)]

    monkeypatch.setattr(focus_module, "claims", claims)
    monkeypatch.setattr(
        session_module,
        "answer_composed",
        lambda *args, **named: given.append(args[1]) or answer_composed(*args, **named),
    )
    with session(tmp_path / "ana", tmp_path / "c") as talk:
        card = replace(talk.backbone.card, confidence={"bias": 0.0, "weights": {}, "threshold": 0.0, "fitted": {}})
        monkeypatch.setattr(talk.backbone, "card", card)
        reply = talk.say("When do kiosk and ferry open and leave?")
    [[state]] = given
    read = [backbone.tokenizer.encode(text) for text in (" ".join(parts), parts[sure])]
    whole, part = (one.recurrent for one in backbone.encode_chunks(read))
    torch.testing.assert_close(state.recurrent, (whole + part) / 2, atol=2e-3, rtol=2e-3)
    assert [entry.weight for entry in reply.evidence] == [1.0]
    assert reply.tokens_processed > sum(tokens) > 0


def test_what_a_conversation_answers_from_a_focused_state_is_judged_by_what_was_fitted_to_such(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
):
    text = "The ferry leaves at nine from the old pier. The kiosk sells ice cream and newspapers all day."
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone, quality="study", text=text)
    with session(tmp_path / "ana", tmp_path / "c", always_answer=False) as talk:
        read, focused = Calibration(0.0, {}, 0.25), Calibration(-1.0, {}, 0.75)
        monkeypatch.setattr(talk, "_confidence", Confidence(read, read.threshold, focused))
        talk.say(FACTS[0])
        for question, origin, own in (
            ("What does the kiosk sell?", "corpus", focused),
            ("Where did my sister Clara move?", "memory", read),
        ):
            reply = talk.say(question)
            assert [one.to_json()["origin"] for one in reply.evidence][:1] == [origin]
            assert (reply.confidence, reply.abstained) == (own.probability({}), own is focused)


def test_what_is_read_to_choose_a_sentence_is_no_part_of_loading(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
):
    text = "The ferry leaves at nine from the old pier. The kiosk opens at seven on the old quay."
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone, quality="study", text=text)
    clock = [0.0]

    def claims(_, rows, question_ids):
        clock[0] += 100.0
        return [0.0] * len(rows)

    monkeypatch.setattr(focus_module, "claims", claims)
    with session(tmp_path / "ana", tmp_path / "c") as talk:
        card = replace(talk.backbone.card, confidence={"bias": 0.0, "weights": {}, "threshold": 0.0, "fitted": {}})
        monkeypatch.setattr(talk.backbone, "card", card)
        monkeypatch.setattr(session_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
        timings = talk.say("When do kiosk and ferry open and leave?").timings
    assert (timings.load, timings.total - timings.startup) == (0.0, pytest.approx(100.0))
    assert 100.0 <= timings.inject < 101.0


def test_a_memory_begins_with_the_encoder_of_the_corpus_it_is_searched_with(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
):
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone, encoder_spec="counting")
    named: list[str | None] = []

    def load(spec: str | None) -> CountingEncoder:
        named.append(spec)
        return CountingEncoder()

    monkeypatch.setattr(memory_side, "load_encoder", load)
    with session(tmp_path / "ana", tmp_path / "c") as talk:
        talk.say(FACTS[0])
    assert named == ["counting"]
    with MemoryStore.open(tmp_path / "ana") as store:
        assert store.settings["encoder"] == "counting"


@pytest.mark.usefixtures("session")
def test_a_memory_begins_with_the_model_of_the_corpus_it_is_searched_with(tmp_path):
    tokenizer = load_mistral_tokenizer()
    save_model(
        tmp_path / "m",
        build(TennsConfig.preset("tiny-outer"), 7),
        name="another",
        tokenizer_sha256=tokenizer.sha256,
    )
    backbone = TennsBackbone.load(tmp_path / "m", tokenizer)
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone, model=str(tmp_path / "m"))
    how = SessionOptions(always_answer=True)
    with Session(tmp_path / "ana", model=ModelChoice(), corpus=tmp_path / "c", options=how) as talk:
        assert talk.backbone.fingerprint == backbone.fingerprint
        talk.say(FACTS[0])
        assert talk.say("When does the ferry leave?").evidence
    with Session(tmp_path / "ana", model=ModelChoice(), options=how) as talk:
        assert talk.backbone.fingerprint == backbone.fingerprint


def test_a_question_is_encoded_once(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
):
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone)
    with session(tmp_path / "ana") as talk:
        talk.say(FACTS[1])
    asked: list[str] = []
    encode = CountingEncoder.encode_query

    def counted(encoder: CountingEncoder, text: str) -> object:
        asked.append(text)
        return encode(encoder, text)

    with session(tmp_path / "ana", tmp_path / "c") as talk:
        monkeypatch.setattr(CountingEncoder, "encode_query", counted)
        reply = talk.say("Where does the ferry leave?")
    assert {entry.to_json()["origin"] for entry in reply.evidence} == {"memory", "corpus"}
    assert asked == ["Where does the ferry leave?"]


def test_a_reply_has_the_same_keys_whatever_was_found(tmp_path, session: Opened):
    def keys(value: object) -> object:
        return {key: keys(inner) for key, inner in value.items()} if isinstance(value, dict) else None

    with session(tmp_path / "ana", remember="all") as talk:
        nothing = talk.say("Where did my sister Clara move?").to_json()
        found = talk.say(FACTS[0]).to_json()
    assert (nothing["evidence"], len(found["evidence"])) == ([], 1)
    assert keys(nothing) == keys(found)
    assert set(nothing["timings_sec"]) >= {"encode", "search", "load", "inject", "first_token", "ttft", "total"}
    assert nothing["timings_sec"]["ttft"] <= nothing["timings_sec"]["total"]


def test_a_withheld_answer_stands_on_nothing(tmp_path, session: Opened):
    with session(tmp_path / "ana", min_confidence=1.0, always_answer=False) as talk:
        talk.say(FACTS[0])
        withheld = talk.say("Where is Clara?")
    assert withheld.abstained
    told = withheld.to_json()
    assert (told["evidence"], told["composition"]["members"]) == ([], [])
    assert [entry["text"] for entry in told["looked_at"]] == [FACTS[0]]
    with session(tmp_path / "ana") as talk:  # answers whatever the confidence
        given = talk.say("Where is Clara?").to_json()
    assert not given["abstained"]
    assert [entry["text"] for entry in given["evidence"]] == [FACTS[0]]
    assert given["looked_at"] == []


def test_a_free_answer_has_no_confidence(tmp_path, session: Opened):
    with session(tmp_path / "ana", free=True, always_answer=False) as talk:
        talk.say(FACTS[0])
        said = talk.say("Where is Clara?")
    assert (said.confidence, said.abstained) == (None, False)
    with pytest.raises(UsageError, match="a free answer has no confidence"):
        SessionOptions(free=True, min_confidence=0.5)


@pytest.mark.parametrize("rule", ["mean", "mix", "replay", "concat"])
def test_the_semantic_state_lies_under_the_members(tmp_path, session: Opened, backbone: TennsBackbone, rule: str):
    with open_memory(tmp_path / "ana", backbone) as memory:
        deposit(memory, chunks(memory, said(*FACTS)))
        opening = next(iter(memory.store.deposits())).info.key_text
    with session(tmp_path / "ana", composing=Composing(rule, baseline_share=0.25)) as talk:
        start = talk.begin(opening)
        assert start.num_deposits >= 1
        reply = talk.say("Where is Clara?")
        assert reply.baseline == pytest.approx(0.25)
        assert sum(entry.weight for entry in reply.evidence) == pytest.approx(0.75)
        assert not reply.exact


def test_what_is_forgotten_meanwhile_is_in_no_answer(tmp_path, session: Opened, backbone: TennsBackbone):
    with open_memory(tmp_path / "ana", backbone) as memory:
        deposit(memory, chunks(memory, said(*["Clara moved to Lisbon."] * 3)))
        opening = next(iter(memory.store.deposits())).info.key_text
    with session(tmp_path / "ana", composing=Composing("mean", baseline_share=0.5)) as talk:
        assert talk.begin(opening).num_deposits == 3
        before = talk.say("Where is Clara?")
        with open_memory(tmp_path / "ana", backbone) as memory:
            forget(memory, list(memory.store.deposits(ids=[2])), proof=False)
        after = talk.say("Where is Clara?")
        assert before.baseline == after.baseline == pytest.approx(0.5)
        assert talk._semantic is not None
        with MemoryStore.open(tmp_path / "ana") as store:
            now = store.semantic(talk.start.domain, talk.start.subcluster)
            assert now is not None
            assert now.num_deposits == 2
            assert talk._semantic.recurrent.numpy().tobytes() == now.recurrent.tobytes()
        with open_memory(tmp_path / "ana", backbone) as memory:
            forget(memory, list(memory.store.deposits()), proof=False)
        assert talk.say("Where is Clara?").baseline == 0.0


def test_an_expired_state_is_read_from_its_text(tmp_path, session: Opened):
    with session(tmp_path / "ana") as talk:
        talk.say(FACTS[0])
        before = talk.say("Where is Clara?")
        with MemoryStore.open(tmp_path / "ana", write=True) as store, store.batch() as batch:
            batch.drop_states(1)
        after = talk.say("Where is Clara?")
        assert (after.text, after.confidence) == (before.text, before.confidence)


def test_a_session_starts_with_the_same_reads_whatever_the_history(
    tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
):
    read: dict[str, tuple[int, int]] = {}
    for name, count in (("short", 2), ("long", 300)):
        texts = [f"Clara of house {n} moved to Lisbon." for n in range(count)]
        with open_memory(tmp_path / name, backbone) as memory:
            deposit(memory, chunks(memory, said(*texts)))
        with session(tmp_path / name) as talk:
            steps: list[str] = []
            connection = talk.memory._store._catalogue._connection
            connection.set_trace_callback(steps.append)
            start = talk.begin("Clara of house 1 moved to Lisbon.")
            connection.set_trace_callback(None)
            assert start.num_deposits > 0
            read[name] = (len(steps), start.bytes_read)
    assert read["short"] == read["long"]


def test_damage_is_named_and_never_answered_from(tmp_path, session: Opened):
    folder = tmp_path / "m"
    with session(folder) as opened:
        for text in ("Max chased a squirrel.", "The violin is old.", "Max chased a cat."):
            opened.say(text)
        whole = opened.say("What did Max chase?")
    with contextlib.closing(sqlite3.connect(folder / "000001/catalogue.sqlite")) as connection:
        connection.execute("UPDATE deposits SET text = 'Max chased a tiger.' WHERE id = 1")
        connection.execute("UPDATE semantic SET num_tokens = 1")
        connection.commit()
    segment = folder / "000001/segments/000000.seg"
    os.truncate(segment, 5000)
    with session(folder) as opened:
        reply = opened.say("What did Max chase?")
        assert [entry.memory.deposit.id for entry in reply.evidence if entry.memory] == [
            entry.memory.deposit.id for entry in whole.evidence if entry.memory and entry.memory.deposit.id != 1
        ]
        assert "tiger" not in reply.text
        assert (reply.damage.deposits, len(reply.damage.states)) == ((1,), 1)
        assert opened.say("The harp is new.").remembered == 4
        assert opened.say("What is new?").evidence[0].memory.deposit.id == 4


def test_questions_are_deposited_only_when_asked_for(tmp_path, session: Opened):
    with session(tmp_path / "a", remember="all") as talk:
        assert talk.say("Is it raining?").remembered == 1
    with session(tmp_path / "b", remember="nothing") as talk:
        assert talk.say(FACTS[0]).remembered is None


def test_what_cannot_be_is_refused(tmp_path, session: Opened, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UsageError, match="--inject"):
        SessionOptions(top_k=1, inject=2)
    with pytest.raises(UsageError, match="--remember"):
        SessionOptions(remember="some")
    make_corpus(tmp_path / "c", tmp_path / "docs", backbone)
    monkeypatch.setattr(CountingEncoder, "fingerprint", "ab" * 32)
    with pytest.raises(EncoderError):
        session(tmp_path / "ana", tmp_path / "c")
    with session(tmp_path / "ana") as talk, pytest.raises(UsageError):
        talk.say("  ")


def test_a_question_of_a_transcript_is_not_the_evidence_for_its_own_answer(
    tmp_path, session: Opened, backbone: TennsBackbone
):
    at = datetime.datetime(2026, 5, 4, 9, tzinfo=datetime.UTC)
    turns = [
        ("Ana", "We have a dog called Biscuit."),
        ("Bo", "Congratulations! What breed is Biscuit?"),
        ("Ana", "He is a beagle."),
        ("Bo", "The car stands in the garage."),
    ]
    with open_memory(tmp_path / "ana", backbone) as memory:
        told = [Utterance(text, at + datetime.timedelta(minutes=n), who) for n, (who, text) in enumerate(turns)]
        deposit(memory, chunks(memory, told))
    with session(tmp_path / "ana", top_k=2) as talk:
        reply = talk.say("What breed is Biscuit?")
        texts = [entry.memory.deposit.info.text for entry in reply.evidence if entry.memory is not None]
        assert texts == ["He is a beagle.", "We have a dog called Biscuit."]
        assert reply.evidence[0].weight == 1.0
        talk.forget([3])  # who answered is gone: the question itself still stands behind what tells
        texts = [
            entry.memory.deposit.info.text for entry in talk.say("What breed is Biscuit?").evidence if entry.memory
        ]
        assert "Congratulations! What breed is Biscuit?" not in texts[:1]


@pytest.mark.parametrize("changed", [{"layers": "bottom:1"}, {"codec": "int4"}])
def test_a_part_of_a_state_is_not_called_exact(
    tmp_path, session: Opened, choice: ModelChoice, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
):
    monkeypatch.setattr("precog.memory.reindex.load_encoder", lambda _named: CountingEncoder())
    with session(tmp_path / "ana") as first:
        assert first.say(FACTS[0]).remembered is not None
        assert first.say("Where did my sister Clara move?").exact
    reindex(tmp_path / "ana", choice, wanted=changed)
    with session(tmp_path / "ana") as second:
        assert not second.say("Where did my sister Clara move?").exact
