import gzip
import json
import lzma
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import InputError
from precog.train.data.documents import (
    Document,
    check_form,
    data_files,
    endings,
    form,
    open_lines,
    parse_documents,
    passed_over,
    read_documents,
    stem,
)

TEXT = "# One\nA line.\nAnother.\n\nAfter a blank.\n\n# Two\nText of two.\n"
PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("ending", PACK)
def test_every_compression_gives_the_same_documents(tmp_path: Path, ending: str) -> None:
    text, lines = tmp_path / f"a.txt{ending}", tmp_path / f"b.jsonl{ending}"
    text.write_bytes(PACK[ending](TEXT.encode()))
    rows = [
        {"title": "One", "text": "A line.\nAnother.\n\nAfter a blank."},
        {"title": "Two", "text": "Text of two."},
    ]
    lines.write_bytes(PACK[ending]("\n".join(map(json.dumps, rows)).encode()))
    expected = [Document("One", ("A line.", "Another.", "After a blank.")), Document("Two", ("Text of two.",))]
    assert list(read_documents(text)) == list(read_documents(lines)) == expected
    assert (form(text), form(lines), stem(text)) == (".txt", ".jsonl", "a")


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_file_cut_short_is_told(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACK[ending]("".join(f"line {i * 7919}\n" for i in range(5000)).encode())[:-400])
    with pytest.raises(InputError, match="cannot be read"):
        list(read_documents(path))


def test_several_compressed_frames_are_one_file(tmp_path: Path) -> None:
    for ending in (".gz", ".xz", ".zst"):
        path = tmp_path / f"a.txt{ending}"
        path.write_bytes(PACK[ending](b"one\n") + PACK[ending](b"two\n"))
        with open_lines(path) as lines:
            assert list(lines) == ["one\n", "two\n"]


@given(st.lists(st.sampled_from(["", "# Title", "text", "  # no title here", "#tag"]), max_size=30))
@settings(max_examples=150)
def test_no_paragraph_is_lost_and_titles_open_documents_after_blank_lines(lines: list[str]) -> None:
    documents = list(parse_documents(lines))
    body = [line for document in documents for line in document.paragraphs]
    heads = {i for i, line in enumerate(lines) if line.startswith("# ") and (i == 0 or not lines[i - 1])}
    # an indented title is a title, too
    heads |= {i for i, line in enumerate(lines) if line.startswith("  # ") and (i == 0 or not lines[i - 1])}
    assert body == [line.strip() for i, line in enumerate(lines) if line and i not in heads]
    assert all(document.paragraphs for document in documents)


def test_slices_of_a_file_are_its_documents_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"# T{i}\ntext {i}" for i in range(11)))
    whole = list(read_documents(path))
    slices = [list(read_documents(path, index, 3)) for index in range(3)]
    assert sorted(d.title for part in slices for d in part) == sorted(d.title for d in whole)
    assert [d.title for d in slices[1]] == ["T1", "T4", "T7", "T10"]


def test_a_huge_document_comes_in_parts() -> None:
    parts = list(parse_documents([f"line {i} " + "x" * 100 for i in range(25_000)]))
    assert len(parts) == 3
    assert sum(len(part.paragraphs) for part in parts) == 25_000
    assert max(sum(map(len, part.paragraphs)) for part in parts) < 1.1 * (1 << 20)


def test_files_are_found_below_a_folder_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("z.txt", "b/a.jsonl.zst", "b/c.md", ".hidden/x.txt", "notes.pdf", "b/data.xz"):
        (tmp_path / name).write_bytes(b"x")
    found, foreign = ([str(p.relative_to(tmp_path)) for p in paths] for paths in data_files(tmp_path))
    assert found == ["b/a.jsonl.zst", "b/c.md", "z.txt"]
    assert foreign == ["b/data.xz", "notes.pdf"]
    with pytest.raises(InputError, match="no text to train on"):
        data_files(tmp_path / ".hidden" / "..none")


def test_what_is_passed_over_is_counted_by_its_ending() -> None:
    names = ["a.PDF", "b/c.pdf", "d.html", "e.tar.gz", "README", "f.xz", "Mr. Smith\x1b[31m went", "g.docx"]
    paths = [Path(name) for name in names]
    assert endings(paths) == {"": 2, ".pdf": 2, ".docx": 1, ".html": 1, ".tar.gz": 1, ".xz": 1}
    line = passed_over(Path("raw"), paths)
    assert line.startswith("passed over 8 files of other formats in raw: 2 without an ending, 2 .pdf, 1 .docx, 1 .html")
    assert line.endswith("turn documents of other formats into text first")
    assert line.isprintable()
    many = passed_over(Path("raw"), [Path(f"{i}.x{i:02}") for i in range(12)])
    assert "1 .x07, 4 others;" in many
    assert "passed over 1 file of" in passed_over(Path("raw"), paths[:1])


@pytest.mark.parametrize("name", ["a.pdf", "a.HTML", "a.docx", "a.csv.gz", "a.tar.xz"])
def test_a_named_file_of_another_format_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="a format that is not read") as told:
        check_form(Path(name))
    assert name in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["a.txt", "a.MD.gz", "a.jsonl", "enwik9", "enwik9.xz"])
def test_a_named_file_of_text_is_not(name: str) -> None:
    check_form(Path(name))


@pytest.mark.parametrize("line", ["{}", "[1]", '{"text": 3}', "nonsense", "[" * 20_000])
def test_json_lines_without_text_are_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "good"}}\n{line}\n')
    with pytest.raises(InputError, match="cannot be read"):
        list(read_documents(tmp_path / "a.jsonl"))
