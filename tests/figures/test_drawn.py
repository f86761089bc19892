"""A picture stands beside its numbers, and is drawn from them again, byte for byte."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figure_layout import LONG, check_layout
from paper_pictures import EVERY
from PIL import Image

from precog import figures
from precog.errors import InputError, StorageError, UsageError

NAMES = pytest.mark.parametrize("name", EVERY)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every picture and its numbers; not to be changed."""
    folder = tmp_path_factory.mktemp("drawn")
    for name, make in EVERY.items():
        assert figures.draw(make(), folder / f"{name}.png") == folder / f"{name}.json"
    return folder


def test_beside_each_picture_are_its_numbers_and_nothing_else(drawn: Path) -> None:
    assert {path.name for path in drawn.iterdir()} == {f"{name}.{kind}" for name in EVERY for kind in ("png", "json")}
    assert set(EVERY) == {kind.kind for kind in figures.KINDS}


@NAMES
def test_a_picture_is_drawn_from_its_numbers_again(name: str, drawn: Path, tmp_path: Path) -> None:
    numbers = drawn / f"{name}.json"
    figures.redraw(numbers, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (drawn / f"{name}.png").read_bytes()
    written = figures.draw(EVERY[name](), tmp_path / "fig.svg")
    assert written.read_bytes() == numbers.read_bytes()
    figures.redraw(numbers, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "fig.svg").read_bytes()
    whole = json.loads(numbers.read_bytes())
    assert whole["picture"] == name
    assert whole["axes"]
    assert all(axis["name"] and axis.keys() >= {"unit", "scale"} for axis in whole["axes"].values())


@NAMES
def test_texts_cover_neither_each_other_nor_the_edge(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_layout(EVERY[name](), tmp_path / "fig.png", monkeypatch)


@pytest.mark.parametrize("name", ["bars_with_intervals", "curves", "pipeline"])
def test_a_long_title_takes_several_lines(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_layout(replace(EVERY[name](), title=LONG[:130]), tmp_path / "fig.png", monkeypatch)


@NAMES
def test_another_number_gives_another_picture(name: str, drawn: Path, tmp_path: Path) -> None:
    changed = json.loads((drawn / f"{name}.json").read_bytes())
    assert _change(changed["data"], 1.5 if name == "memory_map" else 1.04)  # its dots stand on whole pixels
    (tmp_path / "other.json").write_text(json.dumps(changed), encoding="utf-8")
    figures.redraw(tmp_path / "other.json", tmp_path / "other.png")
    assert (tmp_path / "other.png").read_bytes() != (drawn / f"{name}.png").read_bytes()


def _change(data: Any, factor: float) -> bool:
    """Make the first number that is found a little larger."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            if _change(value, factor):
                return True
        elif isinstance(value, float | int) and not isinstance(value, bool) and value:
            data[key] = value * factor
            return True
    return False


@NAMES
def test_white_paper_whatever_is_behind_it(name: str, drawn: Path) -> None:
    with Image.open(drawn / f"{name}.png") as image:
        found = image.convert("RGBA")
    corners = [found.getpixel((x, y)) for x in (0, found.width - 1) for y in (0, found.height - 1)]
    assert corners == [(255, 255, 255, 255)] * 4


def test_numbers_take_no_other_files_place(tmp_path: Path) -> None:
    (tmp_path / "fig.json").write_text('{"em": 61.2}', encoding="utf-8")
    with pytest.raises(StorageError, match="would take the place of another file"):
        figures.draw(EVERY["load_time"](), tmp_path / "fig.png")
    assert (tmp_path / "fig.json").read_text(encoding="utf-8") == '{"em": 61.2}'
    assert [path.name for path in tmp_path.iterdir()] == ["fig.json"]


def test_without_a_picture_there_are_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        figures.draw(EVERY["load_time"](), tmp_path / "fig.pdf")
    with monkeypatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            figures.draw(EVERY["load_time"](), tmp_path / "fig.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="not installed"):
        figures.draw(EVERY["load_time"](), tmp_path / "fig.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda whole: whole.update(picture="pie"), "no such kind of picture; given: .*: pie; expected: bars_with"),
        (lambda whole: whole.update(format=2), "holds no picture's numbers"),
        (lambda whole: whole["data"].pop("title"), "do not fit it; given: data: no title"),
        (lambda whole: whole["data"].update(colour="red"), "given: data: unknown colour"),
        (lambda whole: whole["data"].update(title=7), "given: data.title: 7; expected: a text"),
        (lambda whole: whole["data"].update(platforms="one"), "given: data.platforms: 'one'; expected: a list"),
        (lambda whole: whole["data"]["artefacts"][0]["seconds"].pop(), "not one value for each place"),
        (lambda whole: whole["data"]["artefacts"][0].update(seconds=[True] * 5), "expected: a number"),
        (lambda whole: whole["data"]["artefacts"][0].update(seconds=[math.nan] * 5), "no finite number"),
        (lambda whole: whole["data"].update(artefacts=[1]), r"data.artefacts\[0\]: 1; expected: an object"),
    ],
)
def test_numbers_that_fit_no_picture_are_refused(
    change: Callable[[Any], Any], told: str, drawn: Path, tmp_path: Path
) -> None:
    whole = json.loads((drawn / "load_time.json").read_bytes())
    change(whole)
    numbers = tmp_path / "fig.json"
    numbers.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(InputError, match=told):
        figures.redraw(numbers, tmp_path / "other.png")
    assert not (tmp_path / "other.png").exists()


def test_what_is_no_file_of_numbers_is_refused(tmp_path: Path) -> None:
    for content in ("[", "[]", "7", '{"picture": 1}'):
        (tmp_path / "a.json").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match="holds no picture's numbers"):
            figures.redraw(tmp_path / "a.json", tmp_path / "a.png")
    with pytest.raises(InputError, match=r"cannot be read.*No such file"):
        figures.redraw(tmp_path / "b.json", tmp_path / "a.png")
