"""Command lines in the documentation are those of the program: names, options, and values where they can be typed."""

import re
from pathlib import Path

import pytest
from blocks import ROOT, blocks_of, name_of, pages, spans_of
from command_line import complaint, words_of

PLACEHOLDER = re.compile(r"…|\bQ\b|[A-Z]{3,}|\[|<|\|")
_SHELL = ("console", "bash", "sh", "")


def lines_of(page: Path) -> list[str]:
    text = "\n".join(block.text for block in blocks_of(page, *_SHELL))
    return re.sub(r"\\\n\s*", "", text).splitlines()


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_in_blocks_can_be_typed(page: Path) -> None:
    wrong = []
    for line in lines_of(page):
        words = words_of(line)
        if words and (said := complaint(words, whole=not PLACEHOLDER.search(line))):
            wrong.append(f"{line}: {said}")
    assert not wrong


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_in_sentences_exist_with_their_options(page: Path) -> None:
    wrong = []
    for span in spans_of(page):
        words = words_of(span) if "…" not in span.split()[1:2] else None
        if words and not words[0].isupper() and (said := complaint(words, whole=False)):
            wrong.append(f"{span}: {said}")
    assert not wrong


def test_the_pages_for_users_have_commands() -> None:
    for folder in ("how-to", "quick-start.md", "plugins.md", "http-api.md"):
        place = ROOT / "docs" / folder
        for page in sorted(place.glob("*.md")) if place.is_dir() else [place]:
            assert sum(words_of(line) is not None for line in lines_of(page)) >= 2, page


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("precog aks Q", "no command aks"),
        ("precog ask Q --corpsu papers", "no option --corpsu"),
        ("precog memory remembr Q", "no command remembr"),
        ("precog memory remember Q --usr ana", "no option --usr"),
        ("precog edge --chunk many", "'--chunk'"),
        ("precog memory list", "--user"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line: str, said: str) -> None:
    words = words_of(line)
    assert words
    assert said in (complaint(words, whole=True) or "")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_scripts_that_are_called_exist(page: Path) -> None:
    called = set(re.findall(r"(?:^\$ |^|`)(scripts/[\w.]+\w)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert not [name for name in sorted(called) if not (ROOT / name).is_file()]
