"""A model that writes questions: rows turned round, sampling, refusals, judging, blending."""

import dataclasses

import numpy as np
import pytest
import torch

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.engine.span_mask import span_mask
from precog.errors import TrainingError
from precog.questions.passage import Ask, Kind, Passage
from precog.train.asking import write
from precog.train.asking.parts import columns_of, is_written, joined, read_part, write_part
from precog.train.asking.sample import read_states, ready, sample_segments
from precog.train.asking.turned import ReversedBatches
from precog.train.asking.write import REFUSALS, Asked, Asking, ask_slice, choose_spans, refusal
from precog.train.data.batches import MixtureEntry, QuestionBatches
from precog.train.data.rows import PreparedSet, write_columns
from precog.train.data.tokens import EOS_ID, PROMPT, Pieces, tokenise

CONFIG = TennsConfig(
    width=16, layers=2, inner=32, mixer="outer", heads=2, coefficients=4, channels=8, bottleneck=8, tied=True
)
TEXTS = (
    "Ada Lovelace wrote the first program in 1843.",
    "The river Elbe rises in the Giant Mountains and flows to Hamburg.",
    "Marie Curie was born in Warsaw.",
)
CPU = torch.device("cpu")


@pytest.fixture
def prepared(tmp_path):
    def ask(text, answer, question, kind=Kind.WH):
        return Ask(question, text.index(answer), text.index(answer) + len(answer), kind)

    passages = [
        Passage(
            TEXTS[0],
            (
                ask(TEXTS[0], "1843", "When was it?"),
                ask(TEXTS[0], "1843", "It was in", Kind.CLOZE),
                ask(TEXTS[0], "Ada Lovelace", "Who wrote it?"),
            ),
        ),
        Passage(TEXTS[1], (ask(TEXTS[1], "Hamburg", "Where does the Elbe flow to?"),)),
        Passage(TEXTS[2], (ask(TEXTS[2], "Warsaw", "Where was she born?"),)),
    ]
    columns, _, dropped = tokenise(passages, Pieces())
    assert not any(dropped)
    write_columns(tmp_path / "set", columns, {})
    return PreparedSet(tmp_path / "set")


def test_reversed_rows_give_the_answer_and_want_the_question(prepared):
    pieces = Pieces()
    source = QuestionBatches([MixtureEntry(prepared, 1.0)], 3, 2, seed=0)
    straight, turned = source.batch(0), ReversedBatches(source, pieces).batch(0)
    for r in range(6):
        question = pieces.decode(straight["questions"][r, 1 : straight["prompt_len"][r]].tolist())
        answer = pieces.decode(
            straight["questions"][r, straight["prompt_len"][r] : straight["row_len"][r] - 1].tolist()
        )
        row, prompt, end = turned["questions"][r], turned["prompt_len"][r], turned["row_len"][r]
        assert pieces.decode(row[1:prompt].tolist()) == f"###Answer: {answer} ###Question:"
        assert PROMPT.format(question=pieces.decode(row[prompt : end - 1].tolist())) == question
        assert row[end - 1] == EOS_ID
        assert (row[end:] == 0).all()


def greedy(model, states, prompts, lengths, max_tokens):
    """Row by row: read everything again and take the best token."""
    out = np.full((len(prompts), max_tokens), EOS_ID)
    for row in range(len(prompts)):
        ids = prompts[row, : lengths[row]].tolist()
        for number in range(max_tokens):
            read = model(torch.tensor([ids]), state=states[:, row : row + 1])
            ids.append(int(model.logits(read.hidden[0, -1]).argmax()))
            out[row, number] = ids[-1]
            if ids[-1] == EOS_ID:
                break
    return out


def sharp(seed, scale=5.0):
    """A model so sure of itself that sampling is taking the best token."""
    model = build(dataclasses.replace(CONFIG, vocabulary=40), seed=seed)
    with torch.no_grad():
        model.embedding.weight.mul_(scale)
    return model


@torch.no_grad()
def test_sampling_at_low_temperature_is_reading_and_taking_the_best_token_also_when_rows_have_ended():
    model = sharp(2)
    rng = np.random.default_rng(0)
    states = 3 * model(torch.from_numpy(rng.integers(3, 40, (24, 4)))).state
    prompts, lengths = torch.from_numpy(rng.integers(3, 40, (24, 4))), torch.from_numpy(rng.integers(2, 5, 24))
    sampled = sample_segments(model, states, prompts, lengths, 20, 1e-4, torch.Generator().manual_seed(0))
    expected = greedy(model, states, prompts, lengths, 20)
    ended = (expected == EOS_ID).argmax(1)[(expected == EOS_ID).any(1)]
    assert 6 < (ended < 7).sum() < len(ended) < 24  # enough to be dropped on the way, and not all
    np.testing.assert_array_equal(sampled, expected)


@torch.no_grad()
def test_chunks_read_in_groups_of_similar_length_leave_the_states_they_leave_alone(monkeypatch):
    monkeypatch.setattr("precog.train.asking.sample.READ_AT_ONCE", 2)
    model = build(CONFIG, seed=1)
    context, lengths = torch.from_numpy(np.random.default_rng(0).integers(3, 90, (5, 9))), np.array([9, 2, 5, 3, 7])
    states = read_states(model, context, lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(states[:, row : row + 1], model(context[row : row + 1, :length]).state)


@torch.no_grad()
def test_weights_cast_beforehand_give_the_same_bits():
    model, cast = build(CONFIG, seed=1), ready(build(CONFIG, seed=1), torch.bfloat16)
    tokens = torch.tensor([[1, 50, 60, 70], [1, 90, 91, 92]])
    expected, found = (m(tokens, dtype=torch.bfloat16) for m in (model, cast))
    assert cast.embedding.weight.dtype == torch.bfloat16
    assert torch.equal(found.state, expected.state)
    assert torch.equal(cast.logits(found.hidden), model.logits(expected.hidden))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Where was she born?", None),
        ("Who lived in Warsawville then?", None),  # another word than the answer
        ("Who lived in Warsawville near Warsaw?", "gives_answer"),
        ("Where was she born? When?", "no_question"),
        ("where", "no_question"),
        ("Where was she born", "no_question"),
        ("Was she born in warsaw?", "gives_answer"),
        ("How many active active members are there?", "repeated"),
        ("Who was born in the town in the town?", "repeated"),
    ],
)
def test_a_question_is_one_sentence_that_keeps_its_answer_to_itself(text, why):
    assert refusal(text, "Warsaw") == why


def test_spans_are_different_ones_of_the_chunk_and_a_function_of_the_seed(prepared):
    owner, first, size = choose_spans(prepared, np.array([2, 0]), 4, np.random.default_rng(0))
    pieces = Pieces()
    texts = [
        pieces.decode(prepared.columns["context"][(2, 0)[o], f : f + n].tolist())
        for o, f, n in zip(owner, first, size, strict=True)
    ]
    assert owner.tolist() == [0, 1, 1]
    assert texts == ["Warsaw", "Ada Lovelace", "1843"]
    seen = set()
    for seed in range(20):
        one = [choose_spans(prepared, np.array([0]), 1, np.random.default_rng(seed)) for _ in range(2)]
        assert [a.tolist() for a in one[0]] == [a.tolist() for a in one[1]]
        assert len(one[0][0]) == 1
        seen.add(int(one[0][1][0]))
    assert len(seen) == 2


def asking_of(monkeypatch, texts, **values):
    """Sampling that gives these texts, in turn."""
    pieces = Pieces()
    rows = pieces.encode(texts)

    def sampler(model, states, prompts, lengths, max_tokens, temperature, generator, dtype=None):
        found = [rows[k % len(rows)] for k in range(len(prompts))]
        return np.array([[*ids, *[EOS_ID] * (max_tokens - len(ids))][:max_tokens] for ids in found])

    monkeypatch.setattr(write, "sample_segments", sampler)
    return Asking(slice_chunks=3, **values)


def asked(prepared, asking, chunks=(0, 1, 2), seed=1):
    model = build(CONFIG, seed=seed)
    return ask_slice(model, model, prepared, np.array(chunks), Pieces(), CPU, asking, (0, 0))


def test_questions_that_stay_ask_for_the_spans_of_their_chunks(prepared, monkeypatch):
    pieces = Pieces()
    found = asked(prepared, asking_of(monkeypatch, ["What is asked of this chunk?"], least_probability=0.0), (0, 2))
    assert found.chunk.tolist() == [0, 2]
    assert found.refused == {**dict.fromkeys(REFUSALS, 0), "duplicate": 1}
    for k, chunk in enumerate(found.chunk):
        start, size = int(found.answer_start[k]), int(found.answer_len[k])
        answer = prepared.columns["context"][chunk, start : start + size].tolist()
        prompt, end = int(found.prompt_len[k]), int(found.row_len[k])
        assert found.questions[k, prompt:end].tolist() == [*answer, EOS_ID]
        assert (found.questions[k, end:] == 0).all()
        assert pieces.decode(found.questions[k, 1:prompt].tolist()) == PROMPT.format(
            question="What is asked of this chunk?"
        )
        assert pieces.decode(answer) == ("Ada Lovelace", "Warsaw")[k]


def test_every_refusal_is_counted(prepared, monkeypatch):
    texts = ["Who was it that did that?", "Who did it? When?", "What of Hamburg is this?", "What is is it then?"]
    found = asked(prepared, asking_of(monkeypatch, texts, least_probability=1.0))
    assert len(found) == 0
    assert found.refused == {
        "too_long": 0, "no_question": 1, "gives_answer": 1, "repeated": 1, "duplicate": 0, "improbable": 1,
    }  # fmt: skip
    long = asked(prepared, asking_of(monkeypatch, ["Who was it that did all of this?"], max_tokens=4))
    assert long.refused["too_long"] == 4


@torch.no_grad()
def test_the_judge_reads_the_chunk_and_decodes_the_answer_under_the_mask(prepared, monkeypatch):
    texts = [f"What is asked about number {k}?" for k in range(7)]
    found = asked(prepared, asking_of(monkeypatch, texts, least_probability=0.0))
    model = build(CONFIG, seed=1)
    assert len(found) == 4
    is_exact = []
    for k, chunk in enumerate(found.chunk):
        length = int(prepared.columns["context_len"][chunk])
        context = torch.from_numpy(prepared.columns["context"][chunk : chunk + 1, :length].astype(np.int64))
        row = torch.from_numpy(found.questions[k : k + 1, : found.row_len[k]].astype(np.int64))
        state = model(context).state
        answer = row[:, found.prompt_len[k] :]
        logits = model.logits(model(row, state=state).hidden[0, found.prompt_len[k] - 1 : -1])
        places = span_mask(context, torch.tensor([length]), answer)[0]
        log_probability, exact = 0.0, True
        for j, token in enumerate(answer[0].tolist()):
            allowed = sorted({EOS_ID, *context[0, places[j]].tolist()})
            scores = logits[j, allowed].log_softmax(-1)
            log_probability += float(scores[allowed.index(token)])
            exact &= allowed[int(scores.argmax())] == token
        assert found.probability[k] == pytest.approx(np.exp(log_probability), rel=1e-4)
        is_exact.append(exact)
    monkeypatch.setattr(write, "_judged", lambda *_: (np.zeros(4, np.float32), np.array(is_exact)))
    assert len(asked(prepared, asking_of(monkeypatch, texts, least_probability=0.5))) == sum(is_exact)


def rows_about(chunk, first, probability=0.5, width=48):
    """Asked rows whose prompt is all of one token."""
    count = len(chunk)
    questions = np.zeros((count, width), np.uint16)
    questions[:, :6] = np.array(first, np.int64)[:, None]
    small = np.ones(count, np.int16)
    return Asked(
        np.array(chunk, np.int64), questions, 4 * small, 6 * small, small, small,
        np.full(count, probability, np.float32), {"improbable": count},
    )  # fmt: skip


def test_parts_come_back_whole_and_know_their_chunks(tmp_path):
    path, chunks = tmp_path / "parts" / "00000.npz", np.array([4, 7, 9])
    nothing = rows_about([], [])
    for rows in (rows_about([4, 9], [11, 12]), nothing):
        write_part(path, chunks, rows)
        assert is_written(path, chunks)
        assert not is_written(path, chunks[:2])
        found = read_part(path)
        for entry in dataclasses.fields(Asked):
            mine, theirs = getattr(found, entry.name), getattr(rows, entry.name)
            if entry.name == "refused":
                assert mine["improbable"] == len(rows)
            else:
                np.testing.assert_array_equal(mine, theirs)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    path.write_bytes(path.read_bytes()[:100])
    assert not is_written(path, chunks)
    with pytest.raises(TrainingError, match="damaged"):
        read_part(path)


def test_a_chunk_keeps_its_asked_questions_twice_and_made_ones_beside_them(prepared, tmp_path):
    found = joined([rows_about([2], [21]), rows_about([0, 0], [11, 12])])
    assert found.chunk.tolist() == [0, 0, 2]
    assert found.refused["improbable"] == 3
    write_columns(tmp_path / "blended", columns_of(prepared, found, seed=0), {})
    made = PreparedSet(tmp_path / "blended", verify=True)
    assert len(made) == 2
    assert (made.columns["context"][1] == prepared.columns["context"][2]).all()
    first = [int(made.columns["questions"][r, 1]) for r in made.questions_of(0)]
    assert len(first) == 2 * 2 + 3
    assert first.count(11) == first.count(12) == 2
    own = prepared.columns["questions"][list(prepared.questions_of(2))]
    mine = made.columns["questions"][list(made.questions_of(1))]
    assert sorted(mine[:, 1].tolist()) == sorted([21, 21, *own[:, 1].tolist()])
    assert made.columns["chunk"].tolist() == [0] * 7 + [1] * 3
    plain = columns_of(prepared, found, seed=0, plain=True)
    assert plain["first_question"].tolist() == [0, 2, 3]
    assert plain["questions"][:, 1].tolist() == [11, 12, 21]


def test_made_questions_with_an_interrogative_come_first_and_fill_up_to_eight_rows(prepared):
    found = rows_about([0, 0, 0], [11, 12, 13])
    kinds = columns_of(prepared, found, seed=0)["kind"]
    assert len(kinds) == 8
    assert (kinds == int(Kind.WH)).all()  # six asked, two of the made ones: not the cloze
