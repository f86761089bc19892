"""Evidence in long conversations: routed search is flat search over what it may see, and recall counts turns."""

import datetime
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_keys import CountingEncoder

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError, UsageError
from precog.evaluate.locomo import PROBE_BY, UNROUTED, Locomo, LocomoSettings, Row, read_locomo, recall_of, verdict
from precog.evaluate.locomo_answers import answers_of, locomo_f1, sample_answered, storage_of, tokens_of
from precog.evaluate.locomo_retrieval import KEY_TEXTS, CachedKeys, Conversation, Routed, conversation_of
from precog.evaluate.stemming import stem
from precog.memory.domains import read_seeds
from precog.memory.preceding import Said
from precog.memory.prototypes import from_seeds
from precog.memory.transcript import LocomoQuestion
from precog.text.tokenizer import load_mistral_tokenizer

TALK = [
    ("Ana", "I adopted a grey cat named Pepper yesterday."),
    ("Bo", "My sister moved to Oslo for her new job."),
    ("Ana", "The rent of my flat went up by ninety euros."),
    ("Bo", "We hiked around the lake near the old bridge."),
    ("Ana", "I cried with joy when the letter came."),
    ("Bo", "The dentist told me to come back next week."),
]
ASKED = [
    ("What is the name of the grey cat?", "Pepper", ["D1:1"], 4),
    ("When did Ana adopt a cat?", "7 May 2023", ["D1:1"], 2),
    ("Who moved to Oslo and who hiked around the lake?", "sister, we", ["D1:2", "D1:4"], 1),
    ("Why did Ana sell the car?", None, ["D1:3"], 5),
    ("Is Bo tall?", "Perhaps; nothing tells", [], 3),
    ("What went up by ninety euros?", "the rent", ["D1:3", "D9:9"], 4),
]


def sample(name: str, shift: int = 0) -> dict[str, object]:
    turns = [
        {"speaker": speaker, "dia_id": f"D1:{number}", "text": text}
        for number, (speaker, text) in enumerate(TALK[shift:] + TALK[:shift], 1)
    ]
    qa = [
        {"question": question, "evidence": evidence, "category": category}
        | ({"adversarial_answer": "broke"} if answer is None else {"answer": answer})
        for question, answer, evidence, category in ASKED
    ]
    sessions = {"session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    return {"sample_id": name, "conversation": sessions, "qa": qa}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("locomo") / "talk.json"
    path.write_text(json.dumps([sample("conv-1")]))
    return path


@pytest.fixture(scope="module")
def data(path: Path) -> Locomo:
    return read_locomo(path, datetime.UTC)


@pytest.fixture(scope="module")
def talk(data: Locomo) -> Conversation:
    return conversation_of("conv-1", data.chunks["conv-1"], CountingEncoder().encode_passages, "memory")


def test_a_part_that_is_everything_is_searched_as_the_whole(talk: Conversation) -> None:
    everything = np.arange(len(TALK))
    for question, *_ in ASKED:
        key = CountingEncoder().encode_query(question)
        for how, whole in (("hybrid", "hybrid"), ("dense", "dense"), ("joined", "hybrid")):
            part = talk.search_part(question, key, everything, how)  # type: ignore[arg-type]  # a loop over literals
            assert part.fraction_searched == 1
            assert part.rows == talk.search(question, key, whole).rows  # type: ignore[arg-type]  # likewise


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, len(TALK) - 1)), st.sampled_from([question for question, *_ in ASKED]))
def test_a_part_alone_is_seen_and_words_bring_in_more(talk: Conversation, chosen: set[int], question: str) -> None:
    key = CountingEncoder().encode_query(question)
    rows = np.array(sorted(chosen), np.int64)
    for how in ("hybrid", "dense"):
        found = talk.search_part(question, key, rows, how)  # type: ignore[arg-type]  # a loop over literals
        assert set(found.rows) == chosen
        assert found.fraction_searched == len(chosen) / len(TALK)
    joined = talk.search_part(question, key, rows, "joined")
    worded = set(np.flatnonzero(talk.index.lexical.scores(question)).tolist())
    assert set(joined.rows) == chosen | worded
    assert joined.fraction_searched == len(chosen | worded) / len(TALK)


def test_sub_clusters_part_a_conversation(talk: Conversation) -> None:
    routed = Routed.of(talk, from_seeds(read_seeds(), CountingEncoder()), temperature=0.12, threshold=0.2)
    key = CountingEncoder().encode_query("the rent of the flat")
    worded = talk.index.by_words("the dentist", 10)
    for by in PROBE_BY:
        ranked = routed.ranked(key, by, worded)
        assert sorted(ranked) == sorted(routed.groups.members)
        assert routed.groups.part(ranked).tolist() == list(range(len(TALK)))
    assert 5 in routed.groups.part(routed.ranked(-key, "words", worded)[:1])  # no member is near: words alone decide
    assert routed.groups.part([]).tolist() == []


def test_recall_counts_evidence_turns(data: Locomo) -> None:
    report = json.loads(json.dumps(recall_of(data, CountingEncoder(), LocomoSettings((1, 40), ("memory", "own")))))
    rows = {row["name"]: row for row in report["rows"]}
    assert len(data.with_evidence) == 5
    flat = rows["flat hybrid"]
    # at ten, six turns are all there are: only the turn that does not exist is missed
    assert flat["recall"]["10"] == pytest.approx(100 * (4 + 0.5) / 5)
    assert (flat["any"]["10"], flat["all"]["10"]) == (100, 80)
    assert flat["by_category"]["multi-hop"]["n"] == 1
    assert "open-domain" not in flat["by_category"]
    for kind in ("seeds", "fitted"):
        for by in PROBE_BY:
            few, many = (rows[f"{kind}, {number} by {by}, dense"] for number in (1, 40))
            assert few["fraction_searched"] < many["fraction_searched"]
            assert many["fraction_searched"] == 1
            assert many["recall"] == rows["flat dense"]["recall"]
            assert rows[f"{kind}, 40 by {by}, hybrid"]["recall"] == flat["recall"]
            assert few["recall"]["5"] <= many["recall"]["10"]
    assert report["keys"]["memory"]["hybrid"]["recall"] == flat["recall"]
    assert set(report["keys"]) == {"memory", "own"}


def row(probes: int, search: str, recall: float, fraction: float) -> tuple[Row, dict[str, object]]:
    found = Row(f"{probes} {search}" if probes else f"flat {search}", "", "", probes, search)
    return found, {"recall": {"5": recall}, "fraction_searched": fraction}


def test_the_verdict_is_of_what_searches_half_at_most() -> None:
    control = (Row(UNROUTED, "", "", 0, "joined"), {"recall": {"5": 41.0}, "fraction_searched": 0.1})
    rows = [
        row(0, "hybrid", 60.0, 1),
        row(0, "dense", 59.0, 1),
        row(4, "dense", 57.9, 0.5),
        row(8, "dense", 61.0, 0.51),
    ]
    rows += [control, row(4, "hybrid", 58.0, 0.4), row(2, "hybrid", 58.0, 0.3), row(9, "joined", 70.0, 0.9)]
    found = verdict(rows)
    assert found["flat"] == 60
    dense = {"name": "4 dense", "recall_at_5": 57.9, "fraction_searched": 0.5, "holds": False, "unrouted": None}
    hybrid = {"name": "4 hybrid", "recall_at_5": 58.0, "fraction_searched": 0.4, "holds": True, "unrouted": None}
    assert found["by_search"] == {
        "dense": {**dense, "same_flat": 59.0, "holds_against_same": True},
        "hybrid": {**hybrid, "same_flat": 60.0, "holds_against_same": True},
        "joined": None,
    }
    joined = verdict([*rows, row(3, "joined", 50.0, 0.2)])["by_search"]
    assert isinstance(joined, dict)
    assert joined["joined"]["unrouted"] == 41


def test_key_texts_say_more_or_less(data: Locomo) -> None:
    chunks = data.chunks["conv-1"]
    first = Said.of_chunk(chunks[0])
    said = {name: (meant(chunks[0], None), words(chunks[1], first)) for name, (meant, words) in KEY_TEXTS.items()}
    assert said["own"][0] == f"Ana: {TALK[0][1]} (yesterday: 7 May 2023)"
    assert said["text"][0] == TALK[0][1]
    assert said["speaker"][0] == f"Ana: {TALK[0][1]}"
    assert said["day"][0].endswith("(yesterday: 7 May 2023) (8 May 2023)")
    assert said["before"][0] == said["own"][0]
    assert said["before"][1] == f"{said['own'][0]}\n{said['own'][1]}"
    assert said["before-meaning"][1] == said["own"][1]
    assert said["memory"] == (said["own"][0], said["before"][1])
    assert said["day-words"][0] == said["own"][0]


def test_texts_are_encoded_once() -> None:
    told: list[int] = []
    cached = CachedKeys(CountingEncoder(), told.append)
    texts = [f"text {number % 40}" for number in range(80)]
    keys = cached.passages(texts)
    assert sum(told) == 40
    assert np.array_equal(keys[3], keys[43])
    cached.passages(texts)
    assert sum(told) == 40


@pytest.mark.parametrize(
    "wrong", [{"probes": (2, 1)}, {"probes": (0,)}, {"keys": ("own", "own")}, {"keys": ()}, {"prototypes": ("none",)}]
)
def test_settings_out_of_range(wrong: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(UsageError):
        LocomoSettings(**wrong)  # type: ignore[arg-type]  # one of several fields


def test_questions_that_lead_nowhere(tmp_path: Path) -> None:
    stray = {**sample("conv-1"), "qa": [{**ASKED_ROW, "evidence": []}]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([stray]))
    with pytest.raises(InputError, match="no question names its evidence"):
        read_locomo(path, datetime.UTC)


ASKED_ROW = {"question": "What?", "answer": "x", "category": 4}


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        *(("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre")),
        *(("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"), ("sing", "sing"), ("hopping", "hop")),
        *(("conflated", "conflat"), ("falling", "fall"), ("filing", "file"), ("happy", "happi"), ("sky", "sky")),
        *(("relational", "relat"), ("conditional", "condit"), ("vietnamization", "vietnam"), ("hopeful", "hope")),
        *(("triplicate", "triplic"), ("adoption", "adopt"), ("probate", "probat"), ("rate", "rate")),
        *(("controll", "control"), ("roll", "roll"), ("generalizations", "gener"), ("oscillators", "oscil")),
        *(("is", "is"), ("2023", "2023"), ("né", "né"), ("replacement", "replac"), ("syzygy", "syzygi")),
    ],
)
def test_stems(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


def asked(answer: str | None, category: int) -> LocomoQuestion:
    return LocomoQuestion("c/0", "c", "?", answer, ("D1:1",), category)


def test_f1_by_category() -> None:
    assert tokens_of("The Cats, and a dog's bone!") == ["cat", "dog", "bone"]
    assert locomo_f1("adopting the cats", asked("adopted cat", 4)) == 100
    assert locomo_f1("the cat", asked("a dog", 2)) == 0
    assert locomo_f1("red cat", asked("red; blue", 3)) == pytest.approx(200 / 3)
    assert locomo_f1("red, blue", asked("blue, green", 1)) == 50
    assert locomo_f1("red", asked(None, 5)) == 0
    assert locomo_f1("", asked("red", 4)) == 0


def test_answers_from_states_read_no_context(data: Locomo) -> None:
    backbone = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)
    questions = sample_answered(data.questions, 3, 0)
    assert questions == sample_answered(data.questions, 3, 0)
    assert len(sample_answered(data.questions, 99, 1)) == 4
    report, said = answers_of(data, questions, backbone, CountingEncoder(), "fp32")
    modes = json.loads(json.dumps(report))["modes"]
    assert report["n"] == 3
    for kind in ("grounded", "free"):
        inject, read = modes[f"inject_{kind}"], modes[f"in_context_{kind}"]
        assert inject["mean_context_tokens_read"] == 0
        if kind == "grounded":
            difference = read["mean_tokens_read"] - inject["mean_tokens_read"]
            assert difference == pytest.approx(read["mean_context_tokens_read"])
    for one in said:
        assert one.said["inject_grounded"].text == one.said["in_context_grounded"].text
        assert one.said["inject_grounded"].text in one.turn
    for mode in modes.values():
        assert 0 <= mode["abstained"] <= 1
        assert mode["f1_abstentions_counted"] <= mode["f1"]
    assert modes["inject_free"]["abstained"] == 0
    with pytest.raises(InputError, match="no question of this file"):
        sample_answered([asked(None, 5)], 1, 0)


def test_bytes_by_dial(data: Locomo) -> None:
    backbone = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)
    found = storage_of(data, backbone, "fp16")
    chunks = data.chunks["conv-1"]
    lengths = [len(backbone.tokenizer.encode(chunk.read_text())) for chunk in chunks]
    each = found["state_bytes"]
    assert isinstance(each, int)
    assert found["bytes"] == {"1": 6 * each, "4": 24 * each, "all": sum(lengths) * each}
    assert found["mean_conversation_tokens"] == sum(lengths)
