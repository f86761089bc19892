"""A report as Markdown and HTML: nothing in it is markup, nothing is loaded, nothing is lost."""

import re
from html.parser import HTMLParser

import pytest

from precog.evaluate.paper.html import html
from precog.evaluate.paper.markdown import markdown
from precog.evaluate.paper.report import Compared, Grid, Picture, Report, Section

NASTY = 'a|b <script>alert(1)</script> & "quoted" *star* _line_ [x](y) `code`\nnext'
REPORT = Report(
    "Title <b>",
    ["First & foremost."],
    {"model": NASTY},
    [
        Section(
            "Main <i>",
            [NASTY],
            [Compared("F1", "73.4", "50.1", NASTY)],
            [Grid(NASTY, ("k", "F1"), [("1", NASTY)])],
            [Picture("plot", NASTY, NASTY)],
            [NASTY],
        )
    ],
)
WORDS = {"script", "star", "quoted", "code", "73.4", "50.1", "foremost"}


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.sources: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html_is_well_formed_loads_nothing_and_shows_texts_as_they_are():
    page = Elements()
    page.feed(html(REPORT, {"plot": b"<svg/>"}))
    assert not page.open
    assert "script" not in page.seen
    assert all(source.startswith(("data:image/svg+xml;base64,", "#")) for source in page.sources)
    assert page.text.count(NASTY) >= 4
    assert page.seen.count("img") == 1
    assert page.seen.count("table") == 3


def test_markdown_has_as_many_cells_in_every_row_as_its_table_has_columns():
    lines = markdown(REPORT).splitlines()
    tables: list[list[int]] = [[]]
    for line in lines:
        if line.startswith("|"):
            tables[-1].append(len(re.findall(r"(?<!\\)\|", line)))
        elif tables[-1]:
            tables.append([])
    assert [len(table) for table in tables if table] == [3, 3, 3]
    assert all(len(set(table)) == 1 for table in tables if table)


def test_markdown_escapes_what_would_be_markup_and_keeps_every_word():
    text = markdown(REPORT)
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert all(word in text for word in WORDS)
    assert "(figures/plot.svg)" in text
    assert "(figures/plot.json)" in text


def test_a_row_of_too_few_cells_is_refused():
    with pytest.raises(ValueError, match="a row"):
        Grid("t", ("a", "b"), [("1",)])
