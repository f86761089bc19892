"""A report as one HTML file: nothing is loaded from anywhere, and the pictures are in it."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from precog.evaluate.paper.report import Report, Section

__all__ = ["html"]

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #555; --paper: #fff; --line: #ddd; --stripe: #f6f6f6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --soft: #aaa; --paper: #16181b; --line: #3a3d42; --stripe: #1e2125; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; padding: 1rem;
  max-width: 62rem; }
h1 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.92em; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.3rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid var(--line); }
tbody tr:nth-child(even) { background: var(--stripe); }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, .notes { color: var(--soft); font-size: 0.92em; }
nav ol { columns: 2; } a { color: inherit; }
@media print { body { max-width: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


def html(report: Report, pictures: Mapping[str, bytes]) -> str:
    """The report as one page.

    Args:
        report: what is written.
        pictures: SVG files by name.
    """
    return "\n".join(_lines(report, pictures)) + "\n"


def _lines(report: Report, pictures: Mapping[str, bytes]) -> Iterator[str]:
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(report.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{escape(report.title)}</h1>"
    yield from _paragraphs(report.summary)
    yield from _table("", ("made with", ""), list(report.made_with.items()))
    yield "<nav><ol>"
    for number, section in enumerate(report.sections, 1):
        yield f'<li><a href="#s{number}">{escape(section.title)}</a></li>'
    yield "</ol></nav>"
    for number, section in enumerate(report.sections, 1):
        yield from _section(number, section, pictures)
    yield "</main>\n</body>\n</html>"


def _section(number: int, section: Section, pictures: Mapping[str, bytes]) -> Iterator[str]:
    yield f'<section id="s{number}">\n<h2>{escape(section.title)}</h2>'
    yield from _paragraphs(section.text)
    if section.compared:
        rows = [(row.what, row.paper, row.ours, row.why) for row in section.compared]
        yield from _table("", ("", "paper", "ours", "why"), rows)
    for grid in section.grids:
        yield from _table(grid.title, grid.columns, grid.rows)
    for picture in section.pictures:
        data = b64encode(pictures[picture.name]).decode()
        yield f'<figure><img alt="{escape(picture.alt)}" src="data:image/svg+xml;base64,{data}">'
        yield f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    if section.notes:
        yield '<ul class="notes">'
        yield from (f"<li>{escape(note)}</li>" for note in section.notes)
        yield "</ul>"
    yield "</section>"


def _paragraphs(texts: Sequence[str]) -> Iterator[str]:
    return (f"<p>{escape(text)}</p>" for text in texts)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield '<div class="scroll"><table>'
    if title:
        yield f"<caption>{escape(title)}</caption>"
    headings = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    yield f"<thead><tr>{headings}</tr></thead>"
    yield "<tbody>"
    for row in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div>"
