"""``precog train ask``: questions written by a model, resumed, refused in one line, the same by two processes."""

import dataclasses
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ended import Ended, Run

from precog.backbones.tenns.checkpoint import load_model, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.cli.progress import RunProgress
from precog.questions.passage import Ask, Kind, Passage
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.asking import write
from precog.train.asking.turned import ASKING
from precog.train.data.rows import PreparedSet, write_columns
from precog.train.data.tokens import EOS_ID, Pieces, tokenise

TOWNS = ("Oslo", "Riga", "Bern", "Lyon", "Cork", "York", "Kiel", "Nice", "Bari", "Graz", "Linz", "Pisa")
FAST = ("--steps", "3", "--batch-chunks", "2", "--questions-per-chunk", "2", "--device", "cpu", "--slice-chunks", "4",
        "--set", "save_every_steps=1", "--least-probability", "0")  # fmt: skip


def passages(first: int, towns: tuple[str, ...] = TOWNS) -> list[Passage]:
    found = []
    for number, town in enumerate(towns):
        year = str(first + number)
        text = f"The mill of {town} was built in {year} by Ada Quill."
        asks = [
            Ask(question, text.index(answer), text.index(answer) + len(answer), Kind.WH)
            for question, answer in (("When was it built?", year), ("Who built it?", "Ada Quill"))
        ]
        found.append(Passage(text, tuple(asks)))
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "prep"
    for name, part, rows in (
        ("squad", "train", passages(1700)),
        ("mills", "train", passages(1800)),
        ("mills", "val", passages(1900, TOWNS[:3])),
    ):
        columns, _, _ = tokenise(rows, Pieces(), 64, 48)
        write_columns(folder / part / name, columns, {"seed": 0})
    return folder


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An asker that says something, whatever it has learned; how often it was asked."""
    pieces, calls = Pieces(), []

    def sampler(model, states, prompts, lengths, max_tokens, temperature, generator, dtype=None):  # type: ignore[no-untyped-def]
        calls.append(len(prompts))
        chosen = np.random.default_rng(generator.initial_seed()).integers(100, 1000, len(prompts))
        rows = pieces.encode([f"What is the number {number} of it?" for number in chosen.tolist()])
        return np.array([[*ids, *[EOS_ID] * (max_tokens - len(ids))] for ids in rows])

    monkeypatch.setattr(write, "sample_segments", sampler)
    return calls


def ask(run: Run, model: Path, data: Path, *more: object) -> Ended:
    return run("train", "ask", "--model", model, "--data", data, "--about", "mills", *FAST, *more)


def columns(folder: Path) -> dict[str, object]:
    return {name: column.tolist() for name, column in PreparedSet(folder, verify=True).columns.items()}


def test_questions_become_a_set_beside_the_others_and_a_second_call_asks_nothing_again(
    model: Path, data: Path, run: Run, spoken: list[int]
) -> None:
    first = ask(run, model, data, "--json")
    assert first.status == 0, first.err
    figures = first.json["train"]
    assert figures["asked"] == 24
    assert figures["kept"] == 24 - sum(figures["refused"].values())
    assert first.json["val"]["asked"] == 6
    assert first.json["training"]["step"] == 3
    assert figures["chunks"] == figures["chunks_wanted"] == 12
    assert figures["rows_per_sec"] > 0
    assert all(sample["question"].startswith("What is the number") for sample in figures["samples"])
    made = PreparedSet(data / "train" / "asked", verify=True)
    assert figures["questions"] == made.num_questions == 24 * 3
    assert len(PreparedSet(data / "val" / "asked")) == 3
    assert sorted(p.name for p in (data / ".asked" / "asked" / "train").iterdir()) == [f"0000{k}.npz" for k in range(3)]
    assert len(spoken) == 4

    again = ask(run, model, data, "--plain")
    assert again.status == 0, again.err
    assert len(spoken) == 4
    assert again.out == f"written: {data / 'train' / 'asked'}, 24 rows\n"
    assert PreparedSet(data / "train" / "asked").num_questions == 24


def test_the_new_set_can_be_trained_on(model: Path, data: Path, run: Run, spoken: list[int], tmp_path: Path) -> None:
    assert ask(run, model, data).status == 0
    mixture = tmp_path / "mixture.json"
    mixture.write_text(json.dumps({"phases": [{"until": 1.0, "sets": {"asked": 1, "squad": 1}}]}))
    trained = run(
        "train", "--preset", "tiny-outer", "--data", data, "--mixture", mixture, "--out", tmp_path / "run", *FAST[:8]
    )
    assert trained.status == 0, trained.err
    assert "held out, asked" in trained.err


def test_an_interrupted_run_keeps_its_slices_and_goes_on_to_the_same_set(
    model: Path, data: Path, run: Run, spoken: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(data, twin)
    assert ask(run, model, twin).status == 0
    whole = len(spoken)

    with monkeypatch.context() as patch:
        shown = RunProgress._show

        def stop(self: RunProgress, noun: str, done: int, total: int, metrics: dict[str, object]) -> None:
            shown(self, noun, done, total, metrics)
            if (noun, done) in (("step", 1), ("slice", 1)):
                signal.raise_signal(signal.SIGINT)

        patch.setattr(RunProgress, "_show", stop)
        learning = ask(run, model, data)
        assert learning.status == 130
        assert "interrupted after step 2" in learning.err
        asking = ask(run, model, data, "--json")
        assert asking.status == 130
        assert asking.json["error"]["code"] == "interrupted"
        assert f"precog: interrupted, finished slices are in {data / '.asked' / 'asked'}; run " in asking.err
    assert not (data / "train" / "asked").exists()
    assert len(list((data / ".asked" / "asked" / "train").iterdir())) == 1
    rest = ask(run, model, data)
    assert rest.status == 0, rest.err
    assert len(spoken) == 2 * whole  # nothing was asked twice
    for part in ("train", "val"):
        assert columns(data / part / "asked") == columns(twin / part / "asked")


def test_seconds_bound_the_asking_and_what_is_done_becomes_a_set(
    model: Path, data: Path, run: Run, spoken: list[int]
) -> None:
    assert "no slice was finished in time" in ask(run, model, data, "--seconds", 0).err
    assert ask(run, model, data, "--chunks", 4).status == 0
    ended = ask(run, model, data, "--seconds", 0)
    assert ended.status == 0, ended.err
    assert "4 of 12 chunks were asked about; run it again to go on" in ended.err
    assert len(PreparedSet(data / "train" / "asked")) == 4


def test_more_chunks_and_an_asker_that_is_there(model: Path, data: Path, run: Run, spoken: list[int]) -> None:
    few = ask(run, model, data, "--chunks", 6, "--held-out-chunks", 0, "--json")
    assert few.status == 0, few.err
    assert few.json["train"]["chunks"] == 6
    assert spoken == [8, 4]
    more = ask(run, model, data, "--chunks", 12, "--held-out-chunks", 0, "--json")
    assert more.json["train"]["chunks"] == 12
    assert spoken[2:] == [8, 8]  # the slice that was cut short, and the one after it
    asker = data / ".asked" / "asked" / "asker" / "model"
    other = ask(run, model, data, "--name", "other", "--asker", asker, "--held-out-chunks", 0, "--json")
    assert other.status == 0, other.err
    assert other.json["training"] == {}
    assert columns(data / "train" / "other") == columns(data / "train" / "asked")
    changed = ask(run, model, data, "--temperature", "0.9", "--held-out-chunks", 0)
    assert changed.status == 1
    assert "made with another asking" in changed.err
    assert "--name" in changed.err
    steps = ask(run, model, data, "--set", "lr=0.1", "--held-out-chunks", 0)
    assert steps.status == 1
    assert "the asker that is there has another lr" in steps.err
    weights, title = model.parent / "other", r"[\w-]+ \(fingerprint [0-9a-f]{12}\)"
    network = build(load_model(model)[0].config, 9)
    save_model(weights, network, name="other", tokenizer_sha256=MISTRAL_SHA256)
    base = ask(run, weights, data, "--held-out-chunks", 0)
    assert re.search(rf"asker that is there has another base; given: other{title[5:]}; expected: {title}; ", base.err)
    judge = ask(run, weights, data, "--asker", asker, "--held-out-chunks", 0)
    assert re.search(rf"made with another judge; given: other{title[5:]}; expected: {title}; ", judge.err)


@pytest.mark.parametrize(
    ("more", "said", "status"),
    [
        (["--about", "rivers"], "there is no such prepared set; given: ", 1),
        (["--learn-from", "rivers"], "expected: mills, squad", 1),
        (["--name", "mills"], "--name: a set of this name is there", 2),
        (["--name", "../mills"], "--name: not the name of a set", 2),
        (["--temperature", "0"], "--temperature is out of range", 2),
        (["--least-probability", "2"], "--least-probability is out of range", 2),
        (["--data", "nowhere"], "--data: nothing is there", 2),
        (["--asker", "MODEL"], "this model has not learned to ask", 1),
        (["--set", "parallel=fsdp"], "asking keeps whole copies", 1),
        (["--chunks", "0"], "--chunks", 2),
    ],
)
def test_one_line_for_what_cannot_be(
    more: list[str], said: str, status: int, model: Path, data: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    ended = ask(run, model, data, *(str(model) if word == "MODEL" else word for word in more))
    assert ended.status == status
    assert said in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("precog:")]) == 1
    assert not (data / "train" / "asked").exists()


def test_which_data(run: Run, model: Path) -> None:
    assert "which data?" in run("train", "ask", "--model", model).err


def test_a_set_without_answers_teaches_nothing(model: Path, data: Path, run: Run) -> None:
    rows = [Passage("The mill is closed.", (Ask("Who built it?", 0, 0, Kind.UNANSWERABLE),))]
    found, _, _ = tokenise(rows, Pieces(), 64, 48)
    write_columns(data / "train" / "empty", found, {})
    assert "nobody can learn to ask" in ask(run, model, data, "--learn-from", "empty").err
    none = ask(run, model, data, "--about", "empty")
    assert none.status == 1
    assert "no question stayed" in none.err


def test_a_model_of_another_vocabulary_or_form_is_refused(data: Path, run: Run, tmp_path: Path) -> None:
    small = build(dataclasses.replace(TennsConfig.preset("tiny-outer"), vocabulary=300))
    save_model(tmp_path / "small", small, name="small", tokenizer_sha256=MISTRAL_SHA256)
    assert "the model has another vocabulary than the data" in ask(run, tmp_path / "small", data).err
    other = build(TennsConfig.preset("tiny-outer"))
    save_model(tmp_path / "other", other, name="other", tokenizer_sha256="0" * 64)
    assert "in a form that examples cannot be written in" in ask(run, tmp_path / "other", data).err


def test_when_no_question_stays_it_says_why(model: Path, data: Path, run: Run) -> None:
    ended = ask(run, model, data, "--temperature", "0.01")  # a model that has learned nothing says nothing
    assert ended.status == 1
    assert "no question stayed: " in ended.err
    assert not (data / "train" / "asked").exists()


def _asker(folder: Path) -> Path:
    """A model whose next word depends on the last one alone: it asks for one of four numbers."""
    pieces = Pieces()
    config = dataclasses.replace(TennsConfig.preset("tiny-outer"), tied=False)
    network = build(config)
    assert network.head is not None
    follows: list[tuple[int, int]] = []
    for number in ("one", "two", "six", "ten"):
        ids = [pieces.encode(["###Question:"])[0][-1], *pieces.encode([f"What about the {number} mills?"])[0], EOS_ID]
        follows += itertools.pairwise(ids)
    with torch.no_grad():
        network.embedding.weight.normal_(generator=torch.Generator().manual_seed(0))
        network.head.weight.zero_()
        for block in network.blocks:
            block.project_out.weight.zero_()  # type: ignore[union-attr, operator]  # a TennsBlock
        for before, after in set(follows):
            network.head.weight[after] += network.embedding.weight[before]
    save_model(folder, network, name="asker", tokenizer_sha256=MISTRAL_SHA256, notes={"asks": ASKING})
    return folder


def _start_two(arguments: list[str]) -> list[subprocess.Popen[str]]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    common = {**os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
              "OMP_NUM_THREADS": "1"}  # fmt: skip
    return [
        subprocess.Popen(
            [sys.executable, "-m", "precog", *arguments],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip


def test_two_processes_write_what_one_does(model: Path, data: Path, run: Run, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(data, twin)
    more = ("--asker", _asker(tmp_path / "asker"), "--chunks", 11, "--threads", 1, "--json")
    alone = ask(run, model, data, *more)
    assert alone.status == 0, alone.err
    assert 0 < alone.json["train"]["refused"]["duplicate"] < alone.json["train"]["kept"]
    words = ("train", "ask", "--model", model, "--data", twin, "--about", "mills", *FAST, *more)
    ended = [(*p.communicate(timeout=120), p.returncode) for p in _start_two([str(word) for word in words])]
    assert [code for *_, code in ended] == [0, 0], ended[0][1]
    assert ended[1][0] == ""
    together = json.loads(ended[0][0].splitlines()[-1])
    for part in ("train", "val"):
        for key in ("asked", "kept", "refused", "chunks", "samples", "questions"):
            assert together[part][key] == alone.json[part][key]
        assert columns(twin / part / "asked") == columns(data / part / "asked")
