"""The experiment as a whole: its items, its report, and that no figure may be wrong unnoticed."""

import copy
import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from precog.backbones.registry import load_backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.backbones.tiny import make_tiny
from precog.errors import InputError, UsageError
from precog.evaluate.experiment import Experiment, run
from precog.evaluate.theorem import QUICK, Theorem, TheoremSettings
from precog.evaluate.theorem.bound import Bound, part
from precog.evaluate.theorem.elsewhere import in_another_process
from precog.evaluate.theorem.growth import continuation, curves, growth
from precog.state import CODECS
from precog.text.tokenizer import load_mistral_tokenizer

SETTINGS = TheoremSettings(texts=1, chunk_tokens=5, question_tokens=5, another_process=False)
PARTS = ["exactness", "sufficiency", "convolution", "positions", "averages"]


@pytest.fixture(scope="module")
def experiment():
    backbone = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)
    return Theorem(backbone, settings=SETTINGS)


@pytest.fixture(scope="module")
def records(experiment):
    return [experiment.measure(number) for number in range(len(experiment))]


@pytest.fixture(scope="module")
def report(experiment, records):
    return experiment.report(records)


def test_it_is_an_experiment(experiment, records):
    assert isinstance(experiment, Experiment)
    assert experiment.name == "theorem"
    counts = Counter((record["part"], record["model"]) for record in records)
    once = [(part, model) for part in (*PARTS[1:3], "placeless", "averages") for model in ("given", "diagonal")]
    assert counts == {("exactness", "given"): 4, ("exactness", "diagonal"): 4, ("rotary", "transformer"): 1} | (
        dict.fromkeys(once, 1)
    )
    assert experiment.measure(3) == records[3]  # whatever was measured before
    for kept in (experiment.settings, records):
        assert json.loads(json.dumps(kept)) == kept


@pytest.mark.parametrize(("name", "more"), [("mamba", {"placeless", "averages"}), ("jamba", set())])
def test_a_model_of_another_library_is_asked_what_its_states_allow(name, more, tmp_path):
    pytest.importorskip("transformers")
    backbone = load_backbone(make_tiny(name, tmp_path / name), device="cpu", dtype="float32")
    other = Theorem(backbone, settings=SETTINGS)
    numbers = [i for i, (_, model) in enumerate(other.items) if model == "given"]
    assert {other.items[i][0] for i in numbers} == {"exactness", "sufficiency", *more}
    rows = other.measure(numbers[0])["stored"]
    assert list(rows) == ["fp32", "bf16", "fp16"]  # nobody computes it in FP64
    assert rows["fp32"]["max_abs_logit_error"] <= 1e-4


def test_settings_tell_experiments_apart(experiment):
    backbone = experiment.backbones["given"]
    other = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=2)
    text = "A text of its own, long enough for all that is cut from it. " * 8
    settings = [
        experiment.settings,
        Theorem(other, settings=SETTINGS).settings,
        Theorem(backbone, text, SETTINGS).settings,
        Theorem(backbone, settings=TheoremSettings(1, 5, 6, another_process=False)).settings,
    ]
    assert len({json.dumps(each, sort_keys=True) for each in settings}) == 4


def test_the_report_says_what_holds(report, experiment):
    assert json.loads(json.dumps(report)) == report
    assert list(report["parts"]) == PARTS
    assert report["holds"]
    assert report["fingerprint"] == experiment.backbones["given"].fingerprint
    for found in report["parts"].values():
        assert found["holds"]
        assert found["meaning"]
        assert all(bound["holds"] for bound in found["bounds"] if bound["judged"])
    rows = report["parts"]["exactness"]["rows"]
    assert list(rows["given"]) == list(rows["diagonal"]) == ["fp64", "fp32", "bf16", "fp16"]
    assert rows["given"]["fp16"]["positions"] == 20
    assert rows["given"]["fp16"]["argmax_agreement"] == 1
    assert rows["given"]["fp16"]["continuation"]["tokens"] == 5  # the last mark, where no question is 40 tokens long


def test_curves_are_the_worst_of_all_passages(report, records):
    assert len(report["curves"]) == 8
    for curve in report["curves"]:
        own = [
            r["stored"][curve["stored"]] for r in records if r["part"] == "exactness" and r["model"] == curve["model"]
        ]
        assert curve["tokens"] == [1, 2, 4, 5]
        for layer, errors in enumerate(curve["layers"]):
            assert errors == [max(row["inf_norm"][mark][layer] for row in own) for mark in range(4)]
        assert curve["worst"] == [max(mark) for mark in zip(*curve["layers"], strict=True)]
    worst = {(c["model"], c["stored"]): max(c["worst"]) for c in report["curves"]}
    for fine, coarse in pairwise(("fp64", "fp32", "fp16", "bf16")):
        assert worst["given", fine] < worst["given", coarse]


def test_the_bound_is_looked_at_after_forty_tokens():
    row = {"inf_norm": [[1.0], [0.25], [3.0]]}
    record = {"model": "given", "marks": [1, 40, 64], "stored": {"fp16": row}}
    assert continuation([record], "fp16") == (40, 0.25)
    assert curves([record])[0]["worst"] == [1.0, 0.25, 3.0]
    assert growth([record], "fp16") == 3
    assert growth([{**record, "stored": {"fp16": {"inf_norm": [[0.0], [0.0]]}}}], "fp16") == 0


WRONG = {
    "lost a layer": ("exactness", ["stored", "fp32", "max_abs_logit_error"], 2e-4),
    "wide but not exact": ("exactness", ["stored", "fp64", "max_abs_logit_error"], 2e-10),
    "rounded too much": ("exactness", ["stored", "fp16", "element_error"], 1.01),
    "no number": ("exactness", ["stored", "fp32", "max_abs_logit_error"], float("nan")),
    "not all in the state": ("sufficiency", ["transplant", -1], 1e-7),
    "a layer that does nothing": ("sufficiency", ["transplant", 0], 0.0),
    "lost in bytes": ("sufficiency", ["elsewhere", "max_abs_logit_error"], 1e-7),
    "jumps": ("sufficiency", ["interpolation", "max_abs_logit_error", -1], 1.0),
    "tail not enough": ("convolution", ["carried", "kept", "3", 0], 2e-4),
    "tail not needed": ("convolution", ["carried", "kept", "2"], [0.0]),
    "boundary not enough": ("convolution", ["segment", "boundary", 0], 2e-4),
    "cut harmless": ("convolution", ["segment", "cuts", 2, "error"], 0.0),
    "cut harmful": ("convolution", ["segment", "cuts_with_tail", 2, "error"], 2e-4),
    "not refused": ("convolution", ["segment", "refused"], False),
    "no prefix": ("rotary", ["prefix"], 2e-4),
    "not turned": ("rotary", ["shifts", 0, "alone_turned"], 2e-4),
    "first layer": ("rotary", ["shifts", 0, "key_errors", 0], 2e-4),
    "deeper layer": ("rotary", ["shifts", 0, "value_errors", 1], 0.0),
    "repaired": ("rotary", ["shifts", 0, "turned"], 0.0),
    "a position": ("placeless", ["counted", "1000"], 2e-4),
    "all known": ("placeless", ["unread"], 0.0),
    "a mean that was read": ("averages", ["mean", "ab", "layers"], [0.0]),
    "not unrolled": ("averages", ["unrolled", 0], 2e-4),
    "inputs not enough": ("averages", ["given_inputs", -1], 2e-4),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_figure_that_breaks_its_bound_breaks_its_part(experiment, records, name):
    of, (*path, last), value = WRONG[name]
    broken = copy.deepcopy(records)
    place = next(record for record in broken if record["part"] == of)
    for key in path:
        place = place[key]
    place[last] = value
    report = experiment.report(broken)
    in_part = "positions" if of in ("rotary", "placeless") else of
    assert [name for name, found in report["parts"].items() if not found["holds"]] == [in_part]
    assert not report["holds"]


def test_an_expectation_that_fails_is_said_and_not_judged(experiment, records):
    broken = copy.deepcopy(records)
    broken[0]["stored"]["fp16"]["inf_norm"][-1][0] = 1e-3
    found = experiment.report(broken)["parts"]["exactness"]
    failed = [bound for bound in found["bounds"] if not bound["holds"] and bound["value"] == 1e-3]
    assert len(failed) == 2  # ours after the last mark, and the paper's at every mark; accumulated it still holds
    assert not any(bound["judged"] for bound in failed)
    assert found["holds"]


def test_bounds():
    assert Bound("", "", 1.0, 1.0).holds
    assert not Bound("", "", 1.0, 1.0, most=False).holds
    assert not Bound("", "", float("nan"), 1.0).holds
    assert not Bound("", "", float("nan"), 1.0, most=False).holds
    assert not part("nothing was measured", [])["holds"]


def test_another_process_reads_on_bit_for_bit(experiment):
    backbone = experiment.backbones["diagonal"]
    state = backbone.prefill([1, 500, 600])[0].at_boundary()
    read = in_another_process(None, SETTINGS.seed)
    found = read(CODECS["fp32"].encode(state, backbone.spec), state.num_tokens, [1, 700, 800])
    assert (found == backbone.prefill_logits([1, 700, 800], state)[1]).all()


@pytest.mark.parametrize("wrong", [{"texts": 0}, {"chunk_tokens": 3}, {"question_tokens": 1}])
def test_too_little_is_refused(wrong):
    with pytest.raises(UsageError, match="too few"):
        TheoremSettings(**wrong)


def test_a_text_that_is_too_short_is_refused(experiment):
    with pytest.raises(InputError, match="too short"):
        Theorem(experiment.backbones["given"], "Two words.", QUICK)


def test_a_run_is_its_items(experiment, records, report, monkeypatch):
    seen = []
    monkeypatch.setattr(experiment, "measure", records.__getitem__)  # measuring again gives the same
    assert run(experiment, lambda done, total: seen.append((done, total))) == report
    assert seen == [(i + 1, len(experiment)) for i in range(len(experiment))]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("most", [True, False])
def test_no_number_is_no_proof_of_a_failure_either(value, most):
    assert not Bound("any", "given", value, 1e-4, most=most).holds


def test_what_is_no_number_is_not_lost_among_the_smallest(experiment, records):
    for part_name, where in (("sufficiency", ("transplant",)), ("convolution", ("carried", "cuts", 0, "error"))):
        changed = copy.deepcopy(records)
        record = next(record for record in changed if record["part"] == part_name)
        *way, last = (*where, 0) if part_name == "sufficiency" else where
        for key in way:
            record = record[key]
        record[last] = float("inf")
        assert experiment.report(changed)["parts"][part_name]["holds"] is False


def test_a_convolution_of_one_tap_has_no_tail_to_lose():
    model = build(replace(TennsConfig.preset("tiny-outer"), kernel=1), 0)
    found = Theorem(TennsBackbone.wrap(model, load_mistral_tokenizer(), name="one tap"), settings=SETTINGS)
    number = found.items.index(("convolution", "given"))
    made = found.report([found.measure(i) for i in range(len(found))])
    assert found.measure(number)["taps"] == 1
    names = {bound["name"] for bound in made["parts"]["convolution"]["bounds"] if bound["model"] == "given"}
    assert names == {
        "carried, with the tail: max |Δlogit|",
        "segment, at the boundary, no tail: max |Δlogit|",
    }
