"""A study trains what its plan says, measures all of it in the same way, and survives a job that fails."""

import json
import random

import numpy as np
import pytest
import torch

from precog.backbones.tenns.model import TennsModel
from precog.errors import ModelError, TrainingError
from precog.train.data.recall import make_recall
from precog.train.data.rows import write_columns
from precog.train.data.tokens import Pieces, tokenise
from precog.train.study.__main__ import main
from precog.train.study.jobs import run_study
from precog.train.study.pairs import ASKED, IS, LEVELS, NEXT, PairBatches
from precog.train.study.plan import plan_of, read_values
from precog.train.study.table import markdown
from precog.train.study.variant import run_variant

CONFIG = {
    "width": 16, "layers": 1, "inner": 32, "mixer": "outer", "heads": 2, "coefficients": 4, "channels": 4,
    "bottleneck": 8, "tied": True, "vocabulary": 128,
}  # fmt: skip
RECALL = {"steps": 4, "batch_chunks": 2, "questions_per_chunk": 2, "warmup_steps": 1, "log_every_steps": 2}


def write_plan(folder, **changes):
    plan = {"config": CONFIG, "recall": RECALL, "pairs": [1, 2], "asked": [1, 4], "variants": {"a": {}}}
    path = folder / "plan.json"
    path.write_text(json.dumps({key: value for key, value in {**plan, **changes}.items() if value is not None}))
    return path


def plan_of_file(path):
    return plan_of(read_values(path))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    rng = random.Random(0)
    columns, _, _ = tokenise([make_recall(3, rng) for _ in range(12)], Pieces())
    for name in ("train/facts", "val/facts", "val/others"):
        (folder / name).parent.mkdir(exist_ok=True)
        write_columns(folder / name, columns, {})
    return folder


@pytest.mark.parametrize("level", LEVELS)
def test_every_question_of_a_pair_is_answered_by_its_chunk(level):
    batch = PairBatches(3, 5, 200, seed=1, levels=(level,)).batch(7)
    assert batch["context"].shape == (3, 1 + 4 * level)
    assert (batch["context_len"] == 1 + 4 * level).all()
    keys = batch["context"][:, 1::4]
    assert all(len(set(row)) == level for row in keys.tolist())
    assert not set(keys.flatten()) & set(batch["context"][:, 3::4].flatten())
    assert (batch["context"][:, 2::4] == IS).all()
    assert (batch["context"][:, 4::4] == NEXT).all()
    for row, owner, start in zip(batch["questions"], batch["owner"], batch["answer_start"], strict=True):
        context = batch["context"][owner]
        place = np.flatnonzero(context == row[1])
        assert len(place) == 1
        assert row.tolist() == [1, context[place[0]], ASKED, context[start], 2]
        assert start == place[0] + 2
    assert batch["owner"].tolist() == np.repeat(np.arange(3), 5).tolist()


def test_a_batch_of_pairs_is_a_function_of_seed_and_step():
    def context(seed, step):
        return PairBatches(2, 2, 100, seed=seed, levels=(8,)).batch(step)["context"]

    assert (context(0, 3) == context(0, 3)).all()
    assert (context(0, 3) != context(0, 4)).any()
    assert (context(0, 3) != context(1, 3)).any()


def test_pairs_become_more_until_all_levels_are_drawn():
    source = PairBatches(1, 1, 100, seed=0, steps=100)
    opened = [source.opened(step) for step in range(100)]
    assert opened[0] == 2
    assert opened == sorted(opened)
    assert opened[59] < len(LEVELS) == opened[60] == opened[99]
    drawn = {source.batch(step)["context"].shape[1] for step in range(60, 100)}
    assert drawn == {1 + 4 * level for level in LEVELS}
    assert {source.batch(step)["context"].shape[1] for step in range(10)} <= {5, 9}


@pytest.mark.parametrize(("levels", "vocabulary"), [((), 100), ((0, 1), 100), ((46,), 100), ((1,), 10)])
def test_pairs_that_cannot_be_made_are_refused(levels, vocabulary):
    with pytest.raises(TrainingError, match="so few tokens"):
        PairBatches(1, 1, vocabulary, seed=0, levels=levels)
    PairBatches(1, 1, 100, seed=0, levels=(45,)).batch(0)


def test_a_variant_is_the_common_settings_with_its_own_changes(tmp_path):
    path = write_plan(
        tmp_path,
        text={**RECALL, "lr": 1e-3},
        data="somewhere",
        variants={"a": {}, "b": {"config": {"keys": "raw"}, "recall": {"lr": 0.5}, "text": {"steps": 9}, "seeds": [7]}},
        seeds=[3, 4],
        pairs=[4, 1],
        held_out=["squad"],
    )
    plan = plan_of_file(path)
    first, second = plan.variants
    assert (first.name, second.name) == ("a", "b")
    assert (first.config.keys, second.config.keys) == ("unit", "raw")
    assert second.recall.lr == 0.5
    assert first.recall.lr != 0.5
    assert first.recall.steps == second.recall.steps == 4
    assert (first.text.steps, second.text.steps, second.text.lr) == (4, 9, 1e-3)
    assert (first.seeds, second.seeds) == ((3, 4), (7,))
    assert (plan.pairs, plan.asked, plan.held_out) == ((1, 4), (1, 4), ("squad",))
    assert all(variant.text is None for variant in plan_of_file(write_plan(tmp_path)).variants)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"variants": {}}, TrainingError, "no variants"),
        ({"variants": {"../a": {}}}, TrainingError, "name of a folder"),
        ({"variants": {"a": {"settings": {}}}}, TrainingError, "unknown key.*settings"),
        ({"variants": {"a": []}}, TrainingError, "no object"),
        ({"variants": {"a": {"config": {"mixer": "inner"}}}}, ModelError, "mixer has no such value"),
        ({"variants": {"a": {"config": {"dt": "mode"}}}}, ModelError, "one Δ per head"),
        ({"recall": {"stepz": 1}}, TrainingError, "unknown keys.*stepz"),
        ({"recall": [1]}, TrainingError, "wrong type"),
        ({"minutes": 3}, TrainingError, "unknown key.*minutes"),
        ({"asked": [0]}, TrainingError, "asked are out of range"),
        ({"asked": []}, TrainingError, "asked are out of range"),
        ({"variants": {"a": {"seeds": []}}}, TrainingError, "seeds are out of range"),
        ({"seeds": [True]}, TrainingError, "seeds are out of range"),
        ({"pairs": ["1"]}, TrainingError, "pairs are out of range"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_before_anything_is_trained(tmp_path, changes, error, message):
    path = write_plan(tmp_path, **changes)
    with pytest.raises(error, match=message):
        run_study(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_plan_that_cannot_be_read_is_one_line(tmp_path, capsys):
    (tmp_path / "plan.json").write_text("{")
    assert main([str(tmp_path / "plan.json"), "--out", str(tmp_path / "out")]) == TrainingError.exit_status
    assert capsys.readouterr().err.startswith("error: the plan cannot be read")
    assert main([str(tmp_path / "none.json"), "--out", str(tmp_path / "out")]) == TrainingError.exit_status


def test_a_variant_is_trained_on_pairs_then_on_prepared_data_and_measured_after_each(tmp_path, data):
    path = write_plan(
        tmp_path,
        config={**CONFIG, "vocabulary": 32_000},
        data=str(data),
        text={**RECALL, "steps": 3},
        recall={**RECALL, "evaluate_every_steps": 2},
    )
    plan = plan_of_file(path)
    seen = []
    result = run_variant(plan, plan.variants[0], 0, torch.device("cpu"), tmp_path / "a", lambda r: seen.append(dict(r)))
    assert ["text" in known for known in seen] == [False, True]
    assert set(result["recall"]) == set(result["recall_from_rounded_states"]) == {"1", "4"}
    assert set(result["text"]) == {"facts", "others"}
    assert result["text"]["facts"] == result["text"]["others"]
    for figures in result["text"].values():
        assert set(figures) == {"answer_with", "answer_without", "exact", "lm"}
        assert figures["answer_with"] != figures["answer_without"]
    pairs, text = result["phases"]["recall"], result["phases"]["text"]
    assert (pairs["steps"], text["steps"]) == (4, 3)
    source = PairBatches(2, 2, 8000, seed=0, levels=(1, 2), steps=4)
    batches = [source.batch(step) for step in range(4)]
    assert pairs["tokens"] == sum(int(b["context_len"].sum() + b["row_len"].sum()) for b in batches)
    assert {"step", "1", "4"} == set(pairs["curve"][0])
    assert pairs["curve"][0]["step"] == 2
    assert text["curve"] == []
    assert result["state_bytes"] == 2 * 2 * 4 * 4
    assert not list(tmp_path.glob("a/**/*.safetensors"))
    assert (tmp_path / "a" / "text" / "metrics.jsonl").exists()


def test_the_same_seed_gives_the_same_figures(tmp_path):
    plan = plan_of_file(write_plan(tmp_path))
    results = [
        run_variant(plan, plan.variants[0], seed, torch.device("cpu"), tmp_path / str(place))
        for place, seed in enumerate((5, 5))
    ]
    losses = [(tmp_path / str(place) / "recall" / "metrics.jsonl").read_text().splitlines() for place in (0, 1)]
    for first, second in zip(*losses, strict=True):
        assert json.loads(first)["loss"] == json.loads(second)["loss"]
    assert results[0]["recall"] == results[1]["recall"]


def test_a_held_out_set_that_was_not_prepared_is_refused(tmp_path, data):
    plan = plan_of_file(
        write_plan(tmp_path, config={**CONFIG, "vocabulary": 32_000}, data=str(data), text=RECALL, held_out=["squad"])
    )
    with pytest.raises(TrainingError, match=r"no such held-out set.*facts, others"):
        run_variant(plan, plan.variants[0], 0, torch.device("cpu"), tmp_path / "a")


def test_jobs_that_fail_are_named_and_the_others_go_on(tmp_path, capsys):
    path = write_plan(tmp_path, variants={"good": {}, "bad": {"config": {"vocabulary": 12}}}, asked=[1, 2])
    out = tmp_path / "out"
    assert main([str(path), "--out", str(out), "--cards", "0", "--jobs-per-card", "2"]) == 1
    printed = capsys.readouterr()
    assert "ends good-0" in printed.err
    assert "FAILED bad-0" in printed.err
    study = json.loads((out / "study.json").read_text())
    assert [row["variant"] for row in study["rows"]] == ["good"]
    assert "so few tokens" in study["failed"]["bad-0"]
    assert printed.out == (out / "study.md").read_text()
    assert "| good |" in printed.out
    assert "bad-0 failed: error: so many pairs" in printed.out
    with pytest.raises(TrainingError, match="not empty"):
        run_study(path, out)


def test_jobs_that_take_too_long_are_stopped_and_named(tmp_path):
    lines = []
    path = write_plan(tmp_path, recall={**RECALL, "steps": 10**6}, variants={"a": {}, "b": {}})
    study = run_study(path, tmp_path / "out", on_line=lines.append, limit_sec=0.3)
    assert study["failed"] == {"a-0": "stopped at the time limit", "b-0": "stopped at the time limit"}
    assert study["rows"] == []
    assert "stops 2 jobs" in lines[-1]
    assert "a-0 failed: stopped" in (tmp_path / "out" / "study.md").read_text()


def test_the_published_study_compares_equals(repository):
    plan = plan_of_file(repository / "docs" / "studies" / "recurrence.json")
    sizes, states = [], []
    for variant in plan.variants:
        with torch.device("meta"):
            sizes.append(TennsModel(variant.config).num_parameters())
        states.append(2 * variant.config.layers * variant.config.state_reals)
        assert variant.config.state_reals == 1024 or variant.config.layers * variant.config.state_reals == 49_152
    assert max(sizes) / min(sizes) < 1.05
    # a dense mixing matrix of the diagonal state's width ties its state to its parameters: it is met at its own size
    small = {v.name for v, num_bytes in zip(plan.variants, states, strict=True) if num_bytes == 12_288}
    assert small == {v.name for v in plan.variants if v.config.mixer == "diagonal"} | {"outer-4x16x16"}
    assert set(states) == {12_288, 98_304}


def test_the_table_has_binding_first_and_averages_seeds():
    def row(seed, exact):
        phase = {"steps": 5, "tokens": 1000, "seconds": 2.0, "tokens_per_sec": 500}
        curve = [{"step": 2, "1": 0.9, "4": 0.2}, {"step": 4, "1": 1.0, "4": 0.8}]
        return {
            "variant": "v", "seed": seed, "recall": {"1": 1.0, "4": exact}, "recall_from_rounded_states": {"4": 0.25},
            "parameters": 12345, "state_bytes": 64, "phases": {"recall": {**phase, "curve": curve}, "text": phase},
            "text": {"a": {"answer_with": 1.0, "answer_without": 3.0, "exact": 0.5, "lm": 4.0},
                     "b": {"answer_with": 2.0, "answer_without": 5.0, "exact": 0.1, "lm": 6.0}},
        }  # fmt: skip

    half = row(0, 0.5)
    del half["text"], half["phases"]["text"]
    half.update(variant="w")
    head, rule, first, second = markdown([row(0, 0.5), row(1, 0.7), half], (1, 4), {}).splitlines()
    assert head.startswith("| variant | 1 pairs, % | 4 pairs, % |")
    assert head.index("answer CE with") < head.index("LM loss") < head.index("parameters")
    cells = [cell.strip() for cell in first.strip("|").split("|")]
    assert cells == [
        "v", "100.0", "60.0", "25.0", "4, 4", "1.500", "4.000", "30.0", "5.000", "12,345", "64",
        "500", "500", "1,000", "1,000", "4", "0, 1",
    ]  # fmt: skip
    assert rule.count("|") == head.count("|") == first.count("|") == second.count("|")
    assert second.startswith("| w | 100.0 | 50.0 |")
