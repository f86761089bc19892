"""The samples that come with the package: they are read by the loaders of the data sets, and small."""

import gzip
from collections import Counter
from pathlib import Path

from precog.evaluate.hotpot_data import OFFICIAL, read_hotpot
from precog.evaluate.lengths import BINS
from precog.evaluate.long_documents import LongSettings, documents_of
from precog.evaluate.natural_questions_data import read_natural_questions
from precog.evaluate.paper.data_files import DATA_SETS, find_data
from precog.evaluate.squad_data import read_questions
from precog.text.tokenizer import load_mistral_tokenizer

MOST_BYTES = 250_000


def test_they_are_small_and_zipped_without_a_time(repository: Path) -> None:
    folder = repository / "src" / "precog" / "evaluate" / "data"
    files = sorted(folder.glob("*.gz"))
    assert [path.name for path in files] == sorted(entry.sample for entry in DATA_SETS.values())
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    sources = (folder / "SOURCES.md").read_text(encoding="utf-8")
    for path in files:
        assert path.read_bytes()[4:8] == bytes(4)
        assert f"`{path.name}`" in sources
        assert gzip.decompress(path.read_bytes()).endswith(b"\n")


def test_squad_has_every_paragraph_of_three_articles() -> None:
    path = find_data(None, ["squad"])["squad"]
    questions = read_questions(path)
    articles = Counter(question.title for question in questions)
    assert len(articles) == 3
    assert min(articles.values()) >= 36
    assert len({question.context for question in questions}) == len(questions) == 124
    assert all(answer in question.context for question in questions for answer in question.answers)


def test_squad_fills_documents_of_every_length() -> None:
    path = find_data(None, ["squad"])["squad"]
    questions = read_questions(path)
    items = documents_of(questions, load_mistral_tokenizer(), LongSettings(per_bin=2))
    assert Counter(item.id.split(" ")[1] for item in items) == dict.fromkeys(BINS, 2)


def test_hotpot_is_official() -> None:
    path = find_data(None, ["hotpot"])["hotpot"]
    questions = read_hotpot(path)
    assert len(questions) == 24
    assert {question.setting for question in questions} == {OFFICIAL}
    assert {len(question.paragraphs) for question in questions} == {10}
    assert {len(question.supporting_titles) for question in questions} == {2}


def test_natural_questions_hold_their_answers() -> None:
    path = find_data(None, ["nq"])["nq"]
    questions = read_natural_questions(path)
    assert len(questions) == 40
    assert all(any(answer in question.context for answer in question.answers) for question in questions)
