"""Questions that a model writes about its states."""

import numpy as np
import pytest
import torch

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.train import generate
from precog.train.data.batches import MixtureEntry, QuestionBatches
from precog.train.data.rows import Ask, Kind, Passage, PreparedSet, write_columns
from precog.train.data.tokens import EOS_ID, PROMPT, Pieces, tokenise
from precog.train.generate import Asking, ReversedBatches, is_question, sample_segments, write_questions

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
    def ask(text, answer, question):
        return Ask(question, text.index(answer), text.index(answer) + len(answer), Kind.WH)

    passages = [
        Passage(TEXTS[0], (ask(TEXTS[0], "1843", "When was it?"), ask(TEXTS[0], "Ada Lovelace", "Who wrote it?"))),
        Passage(TEXTS[1], (ask(TEXTS[1], "Hamburg", "Where does the Elbe flow to?"),)),
        Passage(TEXTS[2], (ask(TEXTS[2], "Warsaw", "Where was she born?"),)),
    ]
    columns, _, dropped = tokenise(passages, Pieces())
    assert not dropped
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


def test_sampling_at_low_temperature_is_reading_and_taking_the_best_token():
    model = build(CONFIG, seed=1)
    with torch.no_grad():
        model.embedding.weight.mul_(40)  # sharp enough that sampling is taking the best
    states = model(torch.tensor([[1, 50, 60, 70], [1, 90, 91, 92]])).state
    prompts, lengths = torch.tensor([[1, 5, 6, 0], [1, 5, 7, 8]]), torch.tensor([3, 4])
    sampled = sample_segments(
        model, states, prompts, lengths, Asking(max_tokens=5, temperature=1e-4), torch.Generator().manual_seed(0)
    )
    for row in range(2):
        ids = prompts[row, : lengths[row]].tolist()
        for token in sampled[row].tolist():
            read = model(torch.tensor([ids]), state=states[:, row : row + 1])
            best = int(model.logits(read.hidden[0, -1]).argmax())
            assert token == best
            ids.append(best)
            if best == EOS_ID:
                break


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("Where was she born?", True),
        ("Where was she born? When?", False),
        ("Was she born in Warsaw?", False),
        ("where", False),
        ("Where was she born", False),
    ],
)
def test_a_question_is_one_sentence_that_keeps_its_answer_to_itself(text, good):
    assert is_question(text, "Warsaw") is good


def test_questions_that_stay_ask_for_the_spans_of_their_chunks(prepared, tmp_path, monkeypatch):
    pieces = Pieces()
    asked = pieces.encode(["What is asked of this chunk?"])[0]

    def sampler(model, states, prompts, lengths, asking, generator, dtype=None):
        row = [*asked, *[EOS_ID] * (asking.max_tokens - len(asked))]
        return np.array([row] * len(prompts))

    monkeypatch.setattr(generate, "sample_segments", sampler)
    model = build(CONFIG, seed=1)
    chunks = np.array([2, 0])
    nothing = write_questions(
        model, model, prepared, chunks, tmp_path / "none", CPU, Asking(chunks=2, least_probability=1.01)
    )
    assert nothing == 0
    assert not (tmp_path / "none").exists()
    kept = write_questions(
        model, model, prepared, chunks, tmp_path / "out", CPU, Asking(chunks=1, least_probability=0.0)
    )
    made = PreparedSet(tmp_path / "out", verify=True)
    assert kept == made.num_questions == 2  # the second question about chunk 0 repeats the first
    answers = []
    for chunk in range(2):
        context = made.columns["context"][chunk]
        assert (context == prepared.columns["context"][chunks[chunk]]).all()
        for r in made.questions_of(chunk):
            start, size = int(made.columns["answer_start"][r]), int(made.columns["answer_len"][r])
            prompt, end = int(made.columns["prompt_len"][r]), int(made.columns["row_len"][r])
            answer = context[start : start + size].tolist()
            assert made.columns["questions"][r, prompt : end - 1].tolist() == answer
            assert made.columns["questions"][r, end - 1] == EOS_ID
            answers.append(pieces.decode(answer))
    assert answers[0] == "Warsaw"
    assert answers[1] in ("1843", "Ada Lovelace")
