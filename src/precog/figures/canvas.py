"""What every picture has in common: one style, no global state, and a file that appears whole or not at all.

White paper whatever the viewer's background is; text of 11 points at 100 dots per inch, to be read at its own size;
colours of Okabe and Ito, which people with any colour vision tell apart, each with a line style of its own besides.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from precog.errors import UsageError
from precog.figures.told import wrapped
from precog.writing import output_file, output_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
INK, GRID = "#222222", "#DDDDDD"
DOTS_PER_INCH = 100
SUFFIXES = (".png", ".svg")
_TITLE_INCHES = 0.112
"""What a character of the title takes in width."""
_STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.8,
    "hatch.linewidth": 0.8,
    "svg.hashsalt": "precog",  # the same numbers give the same file
}


def check_target(path: Path) -> None:
    """Refuse what `picture` would refuse at its end, before hours are spent on the numbers.

    Raises:
        UsageError: the suffix is neither .png nor .svg, or matplotlib is not installed.
        StorageError: there is no such folder, or it is no place for a file.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError("a picture is a PNG or an SVG file", given=path, expected="a name ending in .png or .svg")
    output_target(path, "picture")
    try:
        import matplotlib  # noqa: F401  # loaded by whoever draws, and by nobody else
    except ImportError as error:
        hint = "pip install 'precog-ssm[figures]'"
        raise UsageError("drawing needs a package that is not installed", given="matplotlib", hint=hint) from error


@contextmanager
def picture(
    path: Path,
    num_panels: int,
    *,
    title: str,
    width_inches: float,
    height_inches: float,
    num_columns: int | None = None,
) -> Iterator[list["Axes"]]:
    """Rows of empty panels to draw on; written to ``path`` when the block ends without an error.

    Args:
        path: a .png or .svg file; one that is there is replaced in one step.
        num_panels: axes, row by row.
        title: stands over all of them.
        width_inches: of the whole picture, at 100 dots per inch.
        height_inches: the same.
        num_columns: panels side by side; None for all of them.

    Raises:
        UsageError: as `check_target`.
        StorageError: the file cannot be written; nothing is left of it.
    """
    check_target(path)
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", _STYLE]):
        figure = Figure(
            figsize=(width_inches, height_inches), dpi=DOTS_PER_INCH, facecolor="white", layout="constrained"
        )
        figure.suptitle(wrapped(title, int(width_inches / _TITLE_INCHES)), fontsize=13)
        columns = num_columns or num_panels
        rows = -(-num_panels // columns)
        yield [figure.add_subplot(rows, columns, number + 1) for number in range(num_panels)]
        _write(figure, path)


def plain(value: float, _position: object = None) -> str:
    """A number on a logarithmic axis as people write it: 1,024 and not 2^10."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def key_below(panel: "Axes", num_columns: int) -> None:
    """Say under the panel what its lines are, where nothing is drawn."""
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=num_columns, columnspacing=1.2)


def whole_numbers(panel: "Axes") -> None:
    """Mark the horizontal axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _write(figure: "Figure", path: Path) -> None:
    kind = path.suffix.lower().removeprefix(".")
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with output_file(path, "picture", mode=0o644) as file:
        figure.savefig(file, format=kind, metadata=metadata)
