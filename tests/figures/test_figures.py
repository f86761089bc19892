"""Pictures are files that other programs read: the right size, not blank, whole or not there."""

import errno
import math
import sys
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from precog import figures
from precog.errors import InputError, StorageError, UsageError
from precog.figures.canvas import picture

METRICS = [
    {"step": step, "loss": 9 / (1 + step), "context": 8 / (1 + step), "answer": 0.0, "lr": 1e-3} for step in range(40)
]
EVALUATIONS = [{"step": step, "evaluation": {"answer": 3 - step / 20, "exact": 0.5}} for step in (10, 20, 30)]
LAYERS = [{"layer": n, "q10": 2.0 * n, "q50": 10.0 * n, "q90": 90.0 * n} for n in range(1, 13)]
INFLUENCE = [
    {"distance": 2**n, "q10": 0.8 * 0.8**n, "q50": 0.8**n, "q90": 1.1 * 0.8**n, "recall": max(0.5, 1 - n / 20)}
    for n in range(12)
]
OPTIONS = {"title": "a model", "least_share": 0.5, "proposed_chunk_tokens": 64}


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(int)


def is_drawn(part: np.ndarray) -> bool:
    """More than paper: at least 1 % of it is not white, and there is colour."""
    inked = (part < 250).any(-1).mean()
    coloured = (part.max(-1) - part.min(-1) > 60).any()
    return bool(inked > 0.01 and coloured)


def test_losses_and_evaluations_stand_side_by_side(tmp_path: Path) -> None:
    figures.loss_curve([*METRICS, *EVALUATIONS], tmp_path / "loss.png")
    found = pixels(tmp_path / "loss.png")
    assert found.shape == (480, 1100, 3)
    assert (found[0, 0] == 255).all()
    assert is_drawn(found[:, :550])
    assert is_drawn(found[:, 550:])
    assert [path.name for path in tmp_path.iterdir()] == ["loss.png"]


def test_without_evaluations_there_is_one_panel(tmp_path: Path) -> None:
    figures.loss_curve(METRICS, tmp_path / "loss.png")
    assert pixels(tmp_path / "loss.png").shape == (480, 580, 3)


def test_a_step_that_was_run_twice_counts_as_it_ended(tmp_path: Path) -> None:
    wrong = [{"step": step, "loss": 99.0, "context": 99.0} for step in (20, 21)]
    figures.loss_curve([*METRICS[:22], *wrong, *METRICS[20:]], tmp_path / "resumed.png")
    figures.loss_curve(METRICS, tmp_path / "whole.png")
    assert (tmp_path / "resumed.png").read_bytes() == (tmp_path / "whole.png").read_bytes()


def test_values_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    bad = [
        {"step": 41, "loss": math.nan},
        {"step": 42, "loss": math.inf},
        {"step": 43, "loss": None},
        {"step": 44, "loss": 10**400},
        {"step": 10**400, "loss": 1.0},
        {"loss": 1.0},
        {},
    ]
    figures.loss_curve([*METRICS, *bad], tmp_path / "a.svg")
    figures.loss_curve(METRICS, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(InputError, match="there is no loss to draw"):
        figures.loss_curve(bad, tmp_path / "c.svg")
    assert not (tmp_path / "c.svg").exists()


@pytest.mark.parametrize(("layers", "width"), [(LAYERS, 1100), ([], 580)])
def test_the_horizon_is_drawn_with_and_without_gates(tmp_path: Path, layers: list, width: int) -> None:
    figures.horizon(layers, INFLUENCE, tmp_path / "horizon.png", **OPTIONS)
    found = pixels(tmp_path / "horizon.png")
    assert found.shape == (480, width, 3)
    assert is_drawn(found[:, : width // 2])
    assert is_drawn(found[:, width // 2 :])
    with pytest.raises(InputError, match="no influence"):
        figures.horizon(layers, [], tmp_path / "none.png", **OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["horizon.png"]


def test_an_svg_is_well_formed_and_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        figures.horizon(LAYERS, INFLUENCE, tmp_path / name, **OPTIONS)
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 20
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_an_error_while_drawing_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "loss.png"
    figures.loss_curve(METRICS, path)
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), picture(path, 1, title="t", width_inches=2.0, height_inches=2.0) as [panel]:
        panel.plot([1, 2], [1, 1 / 0])

    def full(file: BinaryIO, **_: object) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **options: full(file, **options))
    with pytest.raises(StorageError, match="No space left"):
        figures.loss_curve(METRICS[:9], path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["loss.png"]


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "folder.png" / "inside").touch()
    with pytest.raises(StorageError, match="the picture cannot be written"):
        figures.loss_curve(METRICS, tmp_path / "folder.png")
    with pytest.raises(StorageError, match="no such folder"):
        figures.loss_curve(METRICS, tmp_path / "nowhere" / "loss.png")
    for name in ("loss.jpg", "loss"):
        with pytest.raises(UsageError, match=r"ending in \.png or \.svg"):
            figures.loss_curve(METRICS, tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.png"]


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError) as error:
        figures.loss_curve(METRICS, tmp_path / "loss.png")
    assert error.value.hint == "pip install 'precog-ssm[figures]'"
    assert not list(tmp_path.iterdir())


def test_no_global_state_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it fails
    figures.loss_curve(METRICS, tmp_path / "loss.png")
    assert dict(matplotlib.rcParams) == before
