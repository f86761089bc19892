"""A map shows every group of a domain, the others, and an outline around what emerges."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from precog import figures
from precog.errors import InputError, UsageError
from precog.figures.memory_map import core, hull


def panel(title: str = "spatial", groups: int = 10, *, others: int = 80, outlined: bool = True) -> figures.MapPanel:
    generator = np.random.default_rng(groups)
    centres = np.stack([np.arange(groups) % 4, np.arange(groups) // 4], axis=1) * 10.0
    points = [centre + generator.normal(size=(25, 2)) for centre in centres]
    points.append(generator.uniform(-5, 40, size=(others, 2)))
    points.append(np.array([35.0, 5.0]) + generator.normal(size=(30, 2)))
    names = [f"group number {number} of the map" for number in range(groups)]
    labels = [name for name in names for _ in range(25)] + [None] * (others + 30)
    first = groups * 25 + others
    emergent = {"what emerges": list(range(first, first + 30))} if outlined else {}
    return figures.MapPanel(title, np.concatenate(points).astype(np.float32), tuple(labels), emergent)


def test_ten_groups_others_and_an_outline_are_drawn(tmp_path: Path) -> None:
    figures.memory_map([panel()], tmp_path / "map.png", title="a memory")
    with Image.open(tmp_path / "map.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert pixels.shape[1] == 560
    colours = {(int(r), int(g), int(b)) for r, g, b in pixels.reshape(-1, 3)}
    for colour in ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233)):
        assert colour in colours
    assert (181, 181, 181) in colours  # the others
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_an_outline_is_more_ink_than_none(tmp_path: Path) -> None:
    inked = []
    for outlined in (True, False):
        figures.memory_map([panel(groups=1, outlined=outlined)], tmp_path / "map.png", title="t")
        with Image.open(tmp_path / "map.png") as image:
            pixels = np.asarray(image.convert("RGB")).astype(int)
        inked.append(int((np.abs(pixels - (213, 94, 0)).sum(-1) < 30).sum()))
    assert inked[0] > inked[1] + 200


def test_domains_stand_side_by_side_in_svg(tmp_path: Path) -> None:
    empty = figures.MapPanel("temporal", np.zeros((0, 2), np.float32), ())
    figures.memory_map([panel(), empty, panel("social", 3)], tmp_path / "map.svg", title="a memory")
    root = ElementTree.parse(tmp_path / "map.svg").getroot()
    assert root.tag.endswith("svg")
    raw = (tmp_path / "map.svg").read_text(encoding="utf-8")
    for told in ("spatial (360)", "temporal (0)", "social (185)", "others (110)", "emerging: what emerges (30)"):
        assert told in raw, told
    figures.memory_map([panel(), empty, panel("social", 3)], tmp_path / "again.svg", title="a memory")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "map.svg").read_bytes()


def test_a_map_is_drawn_from_the_numbers_beside_it(tmp_path: Path) -> None:
    empty = figures.MapPanel("empty", np.empty((0, 2), np.float32), ())
    panels = [panel(), empty, panel("social", 3)]
    figures.memory_map(panels, tmp_path / "map.png", title="a memory")
    numbers = figures.draw(figures.MemoryMap.of(panels, "a memory"), tmp_path / "same.png")
    figures.redraw(numbers, tmp_path / "again.png")
    assert (tmp_path / "same.png").read_bytes() == (tmp_path / "map.png").read_bytes()
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "map.png").read_bytes()


def test_more_than_three_domains_take_two_rows(tmp_path: Path) -> None:
    sizes = {}
    for number in (3, 4, 5):
        panels = [panel(f"domain {n}", 2) for n in range(number)]
        figures.memory_map(panels, tmp_path / "map.png", title="t")
        with Image.open(tmp_path / "map.png") as image:
            sizes[number] = image.size
    assert (sizes[3][0], sizes[4][0], sizes[5][0]) == (1560, 1060, 1560)
    assert sizes[5][1] == sizes[4][1] > 1.8 * sizes[3][1]


def test_what_too_few_points_do_not_show_is_said(tmp_path: Path) -> None:
    few = figures.MapPanel("d", np.zeros((1, 2), np.float32), (None,), note="too few to lay out")
    figures.memory_map([few], tmp_path / "map.svg", title="t")
    raw = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert "too few to lay out" in raw
    assert "others (1)" in raw


def test_a_few_far_away_do_not_stretch_an_outline() -> None:
    generator = np.random.default_rng(0)
    near = generator.normal(size=(30, 2)).astype(np.float32)
    far = np.array([[90, 90], [-90, 90], [0, -90]], np.float32)
    assert np.abs(core(np.concatenate([near, far]))).max() < 4
    assert len(core(near)) >= 22
    assert len(core(near[:1])) == 1


def test_a_name_is_no_formula_and_not_endless(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    labels = ("cost $x^2$ and $y_", "a" * 300, "_hidden", "<b>&amp;")
    figures.memory_map([figures.MapPanel("d", points, labels)], tmp_path / "map.svg", title="t")
    raw = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert "cost $x^2$ and $y_ (1)" in raw
    assert "_hidden (1)" in raw
    assert "a" * 33 + "… (1)" in raw
    assert "a" * 35 not in raw


def test_what_is_no_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no memory to draw"):
        figures.memory_map([], tmp_path / "map.png", title="t")
    points = np.zeros((2, 2), np.float32)
    with pytest.raises(InputError, match="label"):
        figures.MapPanel("d", points, ("a",))
    with pytest.raises(InputError, match="nowhere"):
        figures.MapPanel("d", points * np.nan, ("a", "b"))
    with pytest.raises(InputError, match="not on the map"):
        figures.MapPanel("d", points, ("a", "b"), {"g": [2]})
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        figures.memory_map([panel()], tmp_path / "map.gif", title="t")
    assert not list(tmp_path.iterdir())


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=30))
def test_a_hull_holds_every_point_and_turns_one_way(places: list[tuple[int, int]]) -> None:
    points = np.array(places, dtype=np.float32)
    corners = hull(points)
    assert {tuple(corner) for corner in corners} <= {tuple(point) for point in points}
    if len(corners) < 3:
        spread = points - points[0]
        assert np.linalg.matrix_rank(spread) < 2
        return
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        turns = (b[0] - a[0]) * (points[:, 1] - a[1]) - (b[1] - a[1]) * (points[:, 0] - a[0])
        assert (turns >= -1e-3).all()
