"""Where the texts of a picture stand."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from precog.figures import canvas

LONG = "a name that is much longer than anybody would think of, with $formula_{1}$ in it and no end " * 3


def texts_of(picture: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, float]]:
    """Draws, and returns every text that is seen: its words, the box that it covers, and its size in points."""
    from matplotlib.text import Text

    found: list[tuple[str, Any, float]] = []
    draw, write = Text.draw, canvas._write

    def seen(text: Any, *arguments: Any, **options: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            found.append((text.get_text(), text.get_window_extent(), text.get_fontsize()))
        draw(text, *arguments, **options)

    def written(figure: Any, path: Path) -> None:
        found.clear()  # what was drawn before served the layout only
        write(figure, path)
        assert len(found) % 2 == 0, "once to find the layout, once for the file"
        del found[: len(found) // 2]

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", seen)
        patch.setattr(canvas, "_write", written)
        picture.draw(path)
    return found


def check_layout(picture: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = texts_of(picture, path, monkeypatch)
    boxes = [(words, box) for words, box, _ in texts]
    overlapping = [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]
    assert not overlapping, overlapping
    with Image.open(path) as image:
        width, height = image.size
    outside = [told for told, box in boxes if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height]
    assert not outside, outside
    smallest = min(size for _, _, size in texts)
    assert smallest >= 10, smallest
