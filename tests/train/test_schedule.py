"""Learning rates over a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.errors import TrainingError
from precog.train.schedule import learning_rate_factor
from precog.train.settings import TrainSettings


def factors(**values):
    settings = TrainSettings(steps=100, warmup_steps=10, final_lr_fraction=0.1, **values)
    return [learning_rate_factor(settings, step, step / 100) for step in range(101)]


def test_cosine_warms_up_and_falls_to_the_floor():
    found = factors()
    assert found[0] == pytest.approx(0.1, abs=0.01)
    assert max(found) == pytest.approx(1.0, abs=0.03)
    assert found[55] == pytest.approx(0.1 + 0.9 * 0.5 * (1 - 0.15643), abs=1e-4)
    assert found[100] == pytest.approx(0.1)


def test_wsd_stays_and_falls_in_a_line():
    found = factors(schedule="wsd", decay_fraction=0.2)
    assert found[9:81] == pytest.approx([1.0] * 72)
    assert found[90] == pytest.approx(0.55)
    assert found[100] == pytest.approx(0.1)


@given(progress=st.floats(0, 2), step=st.integers(0, 10**6), schedule=st.sampled_from(["cosine", "wsd"]))
def test_a_factor_is_between_the_floor_and_one_after_the_warm_up(progress, step, schedule):
    settings = TrainSettings(steps=100, warmup_steps=0, final_lr_fraction=0.1, schedule=schedule)
    assert 0.1 - 1e-12 <= learning_rate_factor(settings, step, progress) <= 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 0), ("lr", "fast"), ("lr", True), ("lr", float("inf")), ("clip", -1.0), ("steps", 0), ("steps", 2.5),
        ("accumulate", 0), ("ema", 1.0), ("ema", -0.1), ("schedule", "linear"), ("decay_fraction", 0.0),
        ("decay_fraction", 1.5), ("parallel", "tp"), ("recompute", 1), ("weight_decay", -0.1), ("warmup_steps", -1),
        ("final_lr_fraction", 2.0), ("stream_rows", 0), ("stream_tokens", 0), ("minutes", -1.0), ("dtype", "float16"),
        ("unanswerable", 1.5), ("context_weight", -1.0), ("log_every_steps", -1),
        ("dropout", 1.0), ("dropout", -0.1),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_named(name, value):
    with pytest.raises(TrainingError, match=f"training setting {name} "):
        TrainSettings.from_dict({name: value})


def test_an_unknown_setting_is_named():
    with pytest.raises(TrainingError, match=r"unknown keys.*warmup;"):
        TrainSettings.from_dict({"warmup": 3})


def test_a_whole_number_is_a_real_one_too():
    settings = TrainSettings.from_dict({"lr": 1, "steps": 3})
    assert (settings.lr, settings.steps) == (1.0, 3)
    assert type(settings.lr) is float
