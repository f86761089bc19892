"""What goes wrong outside: one clear line each, a status that is not 0, and nothing lost."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ended import Ended, Run
from pypdf import PdfWriter
from reportlab.pdfgen.canvas import Canvas

from precog.store import CorpusStore

Spoil = Callable[[Path], None]


def one_line(ended: Ended) -> str:
    [line] = ended.err.splitlines()
    assert line.startswith("precog: ")
    assert "Traceback" not in ended.err
    assert "bug" not in line
    return line


def pdf(path: Path, *, password: str = "") -> None:
    canvas = Canvas(str(path))
    for page in range(3):
        canvas.drawString(72, 700, f"Page {page} tells of the harbour and of its three cranes.")
        canvas.showPage()
    canvas.save()
    if password:
        writer = PdfWriter(clone_from=str(path))
        writer.encrypt(password, algorithm="RC4-128")
        writer.write(str(path))


def empty(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"")


def blank(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b" \n\t\n")


def junk(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(random.Random(0).randbytes(5000))


def truncated_pdf(folder: Path) -> None:
    pdf(folder / "bad.pdf")
    data = (folder / "bad.pdf").read_bytes()
    (folder / "bad.pdf").write_bytes(data[: len(data) // 3])


def encrypted_pdf(folder: Path) -> None:
    pdf(folder / "bad.pdf", password="secret")


def scanned_pdf(folder: Path) -> None:
    canvas = Canvas(str(folder / "bad.pdf"))
    canvas.rect(72, 72, 300, 300, fill=1)
    canvas.showPage()
    canvas.save()


def torn_docx(folder: Path) -> None:
    (folder / "bad.docx").write_bytes(b"PK\x03\x04" + b"\x00" * 400)


def picture(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 100)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (empty, "empty"),
        (blank, "no text"),
        (junk, "binary"),
        (truncated_pdf, "truncated"),
        (encrypted_pdf, "encrypted"),
        (scanned_pdf, "scan"),
        (torn_docx, "damaged"),
        (picture, "image"),
    ],
)
def test_a_document_that_yields_nothing_is_named_with_its_reason(
    spoil: Spoil, reason: str, tmp_path: Path, model: Path, run: Run
) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    spoil(folder)
    [bad] = folder.iterdir()
    alone = run("index", bad, "--corpus", tmp_path / "alone", "--model", model, "--json")
    assert alone.status == 1
    [failure] = alone.json["failures"]
    assert failure["document"] == str(bad)
    assert reason in failure["reason"]
    [line] = alone.err.splitlines()
    assert str(bad) in line
    assert reason in line
    good = folder / "good.txt"
    good.write_text("The harbour has three cranes.")
    both = run("index", bad, good, "--corpus", tmp_path / "both", "--model", model, "--json")
    assert both.status == 0
    assert (both.json["documents"]["new"], both.json["documents"]["failed"]) == (1, 1)


def test_a_foreign_folder_is_left_alone(tmp_path: Path, docs: Path, model: Path, run: Run) -> None:
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_bytes(b"meow")
    ended = run("index", docs, "--corpus", foreign, "--model", model)
    assert ended.status == 1
    assert "cat.jpg" in one_line(ended)
    assert [path.name for path in foreign.iterdir()] == ["cat.jpg"]
    for command in (["ask", "Who?"], ["search", "Who?"], ["verify"], ["list"], ["info"], ["reindex"]):
        ended = run(*command, "--corpus", foreign)
        assert ended.status == 1, command
        assert "not a corpus" in one_line(ended)
    (foreign / "precog.json").write_text('{"name": "somebody else\'s"}')
    assert run("list", "--corpus", foreign).status == 1


def test_another_model_is_refused_with_the_way_out(corpus: Path, other_model: Path, docs: Path, run: Run) -> None:
    for command in (["ask", "Who?"], ["verify"], ["index", docs]):
        ended = run(*command, "--corpus", corpus, "--model", other_model)
        assert ended.status == 1
        assert f"precog reindex --corpus {corpus} --model {other_model}" in one_line(ended)
    assert run("reindex", "--corpus", corpus, "--model", other_model).status == 0
    assert run("verify", "--corpus", corpus, "--chunks", 1).status == 0


def test_a_flipped_byte_is_found_by_ask_and_verify_and_repaired(corpus: Path, run: Run) -> None:
    with CorpusStore.open(corpus) as store:
        before = store.checksum()
        record_bytes = store.layout.record_bytes
    [segment] = corpus.rglob("*.seg")
    data = bytearray(segment.read_bytes())
    for start in range(4096, len(data), record_bytes):
        data[start + 300] ^= 16
    segment.write_bytes(data)
    ended = run("ask", "Who built the lighthouse?", "--corpus", corpus)
    assert ended.status == 1
    assert "damaged" in one_line(ended)
    ended = run("verify", "--corpus", corpus, "--json")
    assert ended.status == 1
    assert ended.json["ok"] is False
    assert len(ended.json["violations"]) == ended.json["records_checked"]
    assert run("reindex", "--corpus", corpus).status == 0
    with CorpusStore.open(corpus) as store:
        assert store.checksum() == before


@pytest.mark.parametrize("file", ["catalogue.sqlite", "precog.json"])
def test_a_damaged_catalogue_or_marker_is_named(corpus: Path, file: str, run: Run) -> None:
    [path] = corpus.rglob(file)
    path.write_bytes(b"not what it was")
    ended = run("ask", "Who?", "--corpus", corpus)
    assert ended.status == 1
    assert "damaged" in one_line(ended)


def test_damaged_index_files_are_rebuilt(corpus: Path, run: Run) -> None:
    before = run("search", "lighthouse lamp", "--corpus", corpus, "--json").json["hits"]
    for path in corpus.rglob("*.index"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert run("search", "lighthouse lamp", "--corpus", corpus, "--json").json["hits"] == before
    for path in corpus.rglob("*.index"):
        path.unlink()
    assert run("search", "lighthouse lamp", "--corpus", corpus, "--json").json["hits"] == before


@pytest.mark.parametrize("spoilt", ["config.json", "precog.json", "model.safetensors"])
def test_a_damaged_model_is_named(tmp_path: Path, docs: Path, model: Path, spoilt: str, run: Run) -> None:
    copy = tmp_path / "m"
    copy.mkdir()
    for path in model.iterdir():
        data = path.read_bytes()
        (copy / path.name).write_bytes(data[:-9] if path.name == spoilt else data)
    ended = run("index", docs, "--corpus", tmp_path / "c", "--model", copy)
    assert ended.status == 1
    one_line(ended)
    assert not (tmp_path / "c").exists()


def test_questions_of_no_token_and_of_ten_thousand(corpus: Path, run: Run) -> None:
    for question in ("", "   ", "\n"):
        ended = run("ask", question, "--corpus", corpus)
        assert ended.status == 2
        assert "empty" in one_line(ended)
    ended = run("ask", "who " * 10_000 + "built it?", "--corpus", corpus, "--json")
    assert ended.status == 0
    assert ended.json["tokens_processed"] > 10_000


def test_a_question_that_is_no_unicode_is_refused(corpus: Path, run: Run) -> None:
    ended = run("ask", "who \udcff?", "--corpus", corpus)
    assert ended.status == 1
    assert "Unicode" in one_line(ended)


def test_other_settings_than_the_corpus_has_are_refused(corpus: Path, docs: Path, run: Run) -> None:
    for option, value in (("--chunk-tokens", 64), ("--codec", "fp32"), ("--encode", "twice"), ("--layers", "top:1")):
        ended = run("index", docs, "--corpus", corpus, option, value)
        assert ended.status == 2
        assert option in one_line(ended)


def test_somebody_else_is_writing(corpus: Path, docs: Path, run: Run) -> None:
    with CorpusStore.open(corpus, write=True):
        ended = run("forget", "--corpus", corpus, "--document", docs / "mill.txt")
    assert ended.status == 1
    assert "another process is writing" in one_line(ended)
    assert run("forget", "--corpus", corpus, "--document", docs / "mill.txt").status == 0


FULL_DISK = """
import resource, sys
import torch
torch.set_num_threads(1)
from precog.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
main(sys.argv[2:])
"""


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path, model: Path, run: Run) -> None:
    docs = tmp_path / "many"
    docs.mkdir()
    text = "\n\n".join(f"Paragraph {n} tells of the {n}th ship, which sailed in {1500 + n}." for n in range(150))
    (docs / "ships.txt").write_text(text)
    options = ["--model", str(model), "--chunk-tokens", "16", "--strategy", "paragraph"]
    assert run("index", docs, "--corpus", tmp_path / "whole", *options).status == 0
    corpus = tmp_path / "c"
    words = ["index", str(docs), "--corpus", str(corpus), *options]
    full = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "450000", *words], capture_output=True, text=True, check=False
    )
    assert full.returncode == 1
    [line] = full.stderr.splitlines()
    assert line.startswith(("precog: the disk is full", "precog: the disk refuses"))  # whichever file grew first
    with CorpusStore.open(corpus) as store:
        assert 0 < store.size().num_chunks < 150
    assert run(*words).status == 0
    with CorpusStore.open(corpus) as store, CorpusStore.open(tmp_path / "whole") as whole:
        assert store.checksum() == whole.checksum()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path, docs: Path, model: Path, run: Run) -> None:
    tmp_path.joinpath("locked").mkdir(mode=0o500)
    ended = run("index", docs, "--corpus", tmp_path / "locked" / "c", "--model", model)
    assert ended.status == 1
    one_line(ended)
