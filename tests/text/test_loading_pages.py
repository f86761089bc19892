import io
import logging
import sys
import zipfile
from pathlib import Path

import docx
import pytest
from pypdf import PageObject, PdfReader, PdfWriter
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from precog.errors import DocumentError
from precog.text.document import Block, Document, document_text
from precog.text.loading import load_document
from precog.text.sources import file_source


def load(path: Path) -> Document:
    return load_document(file_source(path))


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def blocks_of(path: Path) -> list[Block]:
    blocks = list(load(path).blocks())
    position = 0
    for block in blocks:
        assert block.start == position
        position = block.end
    return blocks


def refusal(path: Path) -> str:
    with pytest.raises(DocumentError) as caught:
        list(load(path).blocks())
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    return line


# HTML


PAGE = """<!doctype html><html><head><title>Harbour guide</title><style>p {}</style></head><body>
<nav><a href="/">Home</a></nav><main><h1>The harbour</h1>
<p>The stone pier was built in 1874 and is <b>still</b> used by fishing boats in every season of the year.</p>
<h2>Tides</h2><p>At spring tide the water rises by more than four metres, and the old steps disappear under it.</p>
<ul><li>High water at noon<ul><li>later in winter</li></ul></li><li>Low water at six</li></ul>
<table><tr><th>boat</th><th>length</th></tr><tr><td>Aurora</td><td>12</td></tr></table>
<pre><code>if tide:
    wait()</code></pre></main><script>var secret = 1;</script></body></html>"""


def test_html_blocks(tmp_path) -> None:
    blocks = blocks_of(write(tmp_path / "a.html", PAGE))
    assert [(block.kind, block.text.strip()) for block in blocks] == [
        ("heading", "The harbour"),
        (
            "paragraph",
            "The stone pier was built in 1874 and is still used by fishing boats in every season of the year.",
        ),
        ("heading", "Tides"),
        (
            "paragraph",
            "At spring tide the water rises by more than four metres, and the old steps disappear under it.",
        ),
        ("paragraph", "- High water at noon\n  - later in winter\n- Low water at six"),
        ("table", "boat | length\nAurora | 12"),
        ("code", "if tide:\n    wait()"),
    ]
    assert blocks[-2].headings == ("The harbour", "Tides")
    assert blocks[-2].lead == "boat | length"


def test_html_without_a_main_text_gives_its_visible_text(tmp_path) -> None:
    text = document_text(load(write(tmp_path / "a.html", "<title>T</title><div>Only<br>words</div><script>x</script>")))
    assert "Only" in text
    assert "words" in text
    assert "x" not in text


@pytest.mark.parametrize(("depth", "is_kept"), [(200, True), (400, False)])
def test_html_nested_deeper_than_the_parser_keeps_is_refused(tmp_path, depth: int, is_kept: bool) -> None:
    inner = "<div>" * depth + "<p>deep words</p>" + "</div>" * depth
    document = load(write(tmp_path / "a.html", f"<html><body><p>start</p>{inner}<p>the end</p></body></html>"))
    if is_kept:
        assert "deep words" in document_text(document)
        assert "the end" in document_text(document)
    else:
        with pytest.raises(DocumentError, match="nested too deeply"):
            document_text(document)


def test_html_declares_its_own_encoding_wrongly_and_is_still_read(tmp_path) -> None:
    page = PAGE.replace("<head>", '<head><meta charset="iso-8859-1">').replace("stone pier", "jetée en pierre")
    assert "jetée en pierre" in document_text(load(write(tmp_path / "a.html", page)))


def test_html_in_the_encoding_it_declares_and_with_an_xml_declaration(tmp_path) -> None:
    page = PAGE.replace("<head>", '<head><meta charset="windows-1251">').replace("stone pier", "каменный причал")
    assert "каменный причал" in document_text(load(write(tmp_path / "a.html", page.encode("cp1251"))))
    strict = '<?xml version="1.0" encoding="utf-8"?>\n' + PAGE
    assert "built in 1874" in document_text(load(write(tmp_path / "b.xhtml", strict)))


def test_deeply_nested_html_is_read_or_refused_in_one_line(tmp_path) -> None:
    path = write(tmp_path / "a.html", "<div>" * 50_000 + "deep words")
    try:
        assert "deep words" in document_text(load(path))
    except DocumentError as error:
        assert "\n" not in str(error)  # noqa: PT017


# PDF


def pdf_file(path: Path, pages: list[str], **options: object) -> Path:
    canvas = Canvas(str(path), pagesize=A4, invariant=1, **options)
    for page in pages:
        for number, line in enumerate(page.splitlines()):
            canvas.drawString(60, 780 - 14 * number, line)
        canvas.showPage()
    canvas.save()
    return path


def test_pdf_pages_and_paragraphs(tmp_path) -> None:
    first = "The harbour was finished in the year 1874 after a long quar-\nrel about its cost.\n\nA second paragraph."
    blocks = blocks_of(pdf_file(tmp_path / "a.pdf", [first, "Page two."]))
    assert [(block.page, block.text) for block in blocks] == [
        (1, "The harbour was finished in the year 1874 after a long quarrel about its cost.\n\n"),
        (1, "A second paragraph.\n\n"),
        (2, "Page two.\n\n"),
    ]


def test_a_damaged_page_does_not_lose_the_others(tmp_path, monkeypatch) -> None:
    extract_text = PageObject.extract_text

    def fail(page: PageObject) -> str:
        text = extract_text(page)
        if "second" in text:
            raise ValueError("bad\nfont")
        return text

    monkeypatch.setattr(PageObject, "extract_text", fail)
    heard: list[str] = []
    path = pdf_file(tmp_path / "a.pdf", ["first page", "second page", "third page"])
    texts = [block.text for block in load(path).blocks(heard.append)]
    assert texts == ["first page\n\n", "third page\n\n"]
    assert heard == ["page 2 is damaged: bad font", "1 of 3 pages have no text: 2"]
    assert "bad font" in refusal(pdf_file(tmp_path / "b.pdf", ["second page"]))


def test_a_heading_line_is_no_part_of_the_paragraph_below(tmp_path) -> None:
    page = "1 Introduction\nThe harbour was finished in the year 1874 after a long dispute\nabout its cost."
    texts = [block.text for block in blocks_of(pdf_file(tmp_path / "a.pdf", [page]))]
    assert texts[0] == "1 Introduction\n\n"
    assert len(texts) == 2


def test_a_pdf_is_recognised_under_another_name(tmp_path) -> None:
    assert load(pdf_file(tmp_path / "report.txt", ["words"])).media_type == "application/pdf"


def test_a_scanned_pdf_is_a_visible_failure(tmp_path) -> None:
    assert "none of its 3 pages has text" in refusal(pdf_file(tmp_path / "scan.pdf", ["", "", ""]))


def test_pages_without_text_are_told(tmp_path) -> None:
    heard: list[str] = []
    path = pdf_file(tmp_path / "a.pdf", ["text", "", "", "text", ""])
    assert len(list(load(path).blocks(heard.append))) == 2
    assert heard == ["3 of 5 pages have no text: 2-3, 5"]
    heard.clear()
    list(load(pdf_file(tmp_path / "b.pdf", ["text"] * 9 + [""])).blocks(heard.append))
    assert heard == []


def test_a_truncated_pdf_is_refused(tmp_path) -> None:
    whole = pdf_file(tmp_path / "a.pdf", ["text " * 10] * 5).read_bytes()
    for share in (0.1, 0.5, 0.9):
        assert "truncated" in refusal(write(tmp_path / "b.pdf", whole[: int(share * len(whole))]))
    assert "damaged" in refusal(write(tmp_path / "c.pdf", b"%PDF-1.4\ngarbage\n%%EOF\n"))


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256-R5"])
def test_an_encrypted_pdf_is_refused(tmp_path, algorithm: str) -> None:
    path = tmp_path / "a.pdf"
    if algorithm == "RC4-128":
        writer = PdfWriter(PdfReader(pdf_file(tmp_path / "plain.pdf", ["text"])))
        writer.encrypt("secret", algorithm=algorithm)
        writer.write(path)
    else:
        plain = pdf_file(tmp_path / "plain.pdf", ["text"]).read_bytes()
        entry = b"/Encrypt << /Filter /Standard /V 5 /R 5 /Length 256 /P -4 /O <" + b"00" * 48 + b"> /U <" + b"00" * 48
        entry += b"> /OE <" + b"00" * 32 + b"> /UE <" + b"00" * 32 + b"> /Perms <" + b"00" * 16 + b"> "
        entry += b"/CF << /StdCF << /CFM /AESV3 /Length 32 >> >> /StmF /StdCF /StrF /StdCF >> "
        write(path, plain.replace(b"/Root", entry + b"/Root"))
    assert "encrypted" in refusal(path)


# DOCX


def docx_file(path: Path) -> Path:
    document = docx.Document()
    document.add_heading("Report", level=0)
    document.add_heading("Boats", level=2)
    document.add_paragraph("The Aurora is twelve metres long.")
    table = document.add_table(rows=0, cols=2)
    for left, right in (("boat", "length"), ("Aurora", "12"), ("", "")):
        cells = table.add_row().cells
        cells[0].text, cells[1].text = left, right
    document.add_paragraph("After the table.")
    document.save(str(path))
    return path


def test_docx_blocks(tmp_path) -> None:
    blocks = blocks_of(docx_file(tmp_path / "a.docx"))
    assert [(block.kind, block.text, block.headings) for block in blocks] == [
        ("heading", "Report\n\n", ()),
        ("heading", "Boats\n\n", ("Report",)),
        ("paragraph", "The Aurora is twelve metres long.\n\n", ("Report", "Boats")),
        ("table", "boat | length\nAurora | 12\n\n", ("Report", "Boats")),
        ("paragraph", "After the table.\n\n", ("Report", "Boats")),
    ]
    assert blocks[3].lead == "boat | length"


def rewritten_docx(path: Path, change) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(docx_file(path)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.infolist():
            new.writestr(part.filename, change(part.filename, old.read(part)))
    return write(path, buffer.getvalue())


def test_docx_text_in_insertions_controls_and_text_boxes_is_read_and_deleted_text_is_not(tmp_path) -> None:
    extra = (
        b"<w:p><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
        b"<w:sdt><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        b"<w:p><w:r><w:t>outer</w:t><w:pict><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
        b"</w:pict></w:r></w:p>"
    )

    def change(name: str, content: bytes) -> bytes:
        return content.replace(b"<w:body>", b"<w:body>" + extra) if name == "word/document.xml" else content

    text = document_text(load(rewritten_docx(tmp_path / "a.docx", change)))
    assert text.startswith("inserted\n\ncontrolled\n\nouter\n\nboxed\n\nReport")
    assert "deleted" not in text


def test_bombs_are_refused(tmp_path) -> None:
    def inflate(name: str, content: bytes) -> bytes:
        return content + b" " * (20 << 20) if name == "word/document.xml" else content

    def declare(name: str, content: bytes) -> bytes:
        if name != "word/document.xml":
            return content
        entities = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
        return content.replace(b"<w:document", entities + b"<w:document", 1).replace(b"Aurora", b"&b;")

    assert "decompression bomb" in refusal(rewritten_docx(tmp_path / "a.docx", inflate))
    assert "declares entities" in refusal(rewritten_docx(tmp_path / "b.docx", declare))


def test_damaged_docx_files_are_refused(tmp_path) -> None:
    whole = docx_file(tmp_path / "a.docx").read_bytes()
    assert "damaged or truncated" in refusal(write(tmp_path / "b.docx", whole[: len(whole) // 2]))
    assert "encrypted or an old" in refusal(
        write(tmp_path / "c.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    )
    assert "damaged" in refusal(write(tmp_path / "d.docx", "just words"))

    def cut(name: str, content: bytes) -> bytes:
        return content[: len(content) // 2] if name == "word/document.xml" else content

    assert "malformed XML" in refusal(rewritten_docx(tmp_path / "e.docx", cut))


# Silence


def test_third_parties_say_nothing(tmp_path, capfd, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    damaged = pdf_file(tmp_path / "a.pdf", ["text"]).read_bytes().replace(b"/Length", b"/Lenght", 1)
    for path in (write(tmp_path / "b.pdf", damaged), write(tmp_path / "c.html", "<p>" * 3 + "<b>x</i>&bogus;")):
        try:
            list(load(path).blocks())
        except DocumentError:
            continue
    sys.stderr.flush()
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
