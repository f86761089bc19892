import io
import json
import logging
import random
import sys
import zipfile
from hashlib import sha256
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


# Plain text and encodings


def test_plain_text_is_kept_character_by_character(tmp_path) -> None:
    text = "\n\nOne\nstill one.\n \n\nTwo.\n\n\n"
    path = write(tmp_path / "a.txt", text)
    assert document_text(load(path)) == text
    assert [block.text for block in blocks_of(path)] == ["\n\nOne\nstill one.\n \n\n", "Two.\n\n\n"]


def test_line_ends_become_line_feeds(tmp_path) -> None:
    assert document_text(load(write(tmp_path / "a.txt", "a\r\nb\rc\n"))) == "a\nb\nc\n"


FRENCH = "Les élèves déjà fatigués étaient assis près de la fenêtre – l’été, ça va.\n"
POLISH = "Zażółć gęślą jaźń. Pchnąć w tę łódź jeża lub ośm skrzyń fig.\n"
HUNGARIAN = "Árvíztűrő tükörfúrógép.\n"
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n"
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", FRENCH),
        ("utf-8", JAPANESE),
        ("utf-8-sig", POLISH),
        ("utf-16", FRENCH),
        ("utf-16-le", "Plain words only.\n"),
        ("utf-16-be", "Plain words only.\n"),
        ("utf-16-le", JAPANESE),
        ("utf-16-be", RUSSIAN),
        ("utf-32", POLISH),
        ("cp1252", FRENCH),
        ("cp1252", "Die Straße führt über die Brücke – “schön”, £5 oder €20.\n"),
        ("cp1252", "café\n"),
        ("iso8859_2", POLISH),
        ("iso8859_2", HUNGARIAN),
        ("iso8859_2", "Příliš žluťoučký kůň úpěl ďábelské ódy.\n"),
        ("cp1250", POLISH),
        ("koi8-r", RUSSIAN * 3),
        ("cp1251", RUSSIAN * 3),
        ("shift_jis", JAPANESE * 3),
        ("gb18030", "中华人民共和国是世界上人口最多的国家之一，首都是北京。\n" * 3),
    ],
)
def test_the_encoding_is_found(tmp_path, encoding: str, text: str) -> None:
    path = write(tmp_path / "a.txt", text.encode(encoding))
    assert document_text(load(path)) == text
    assert load(path).encoding


def test_an_accent_far_behind_plain_text_is_read(tmp_path) -> None:
    text = "Plain ASCII text line.\n" * 100_000 + FRENCH
    assert document_text(load(write(tmp_path / "a.txt", text.encode("cp1252")))) == text


def test_a_few_damaged_bytes_do_not_change_the_encoding_and_are_told(tmp_path) -> None:
    heard: list[str] = []
    document = load(write(tmp_path / "a.txt", FRENCH.encode() * 20 + b"damaged \xff here\n"))
    text = "".join(block.text for block in document.blocks(heard.append))
    assert text == FRENCH * 20 + "damaged \ufffd here\n"
    assert heard == ["1 places could not be decoded as utf-8 and read U+FFFD"]


def test_documents_name_themselves(tmp_path) -> None:
    path = write(tmp_path / "a.md", "# A\n")
    document = load(path)
    assert document.source == str(path)
    assert document.media_type == "text/markdown"
    assert document.sha256 == sha256(b"# A\n").hexdigest()


# What is no text


@pytest.mark.parametrize("num_bytes", [10, 100, 10_000])
def test_binary_junk_named_txt_is_refused(tmp_path, num_bytes: int) -> None:
    junk = random.Random(0).randbytes(num_bytes)
    assert "binary data" in refusal(write(tmp_path / "junk.txt", junk))


def test_empty_and_blank_files_are_refused(tmp_path) -> None:
    assert "empty" in refusal(write(tmp_path / "a.txt", b""))
    assert "no text" in refusal(write(tmp_path / "b.txt", " \n\t\n"))
    assert "empty" in refusal(write(tmp_path / "c.pdf", b""))
    assert "no text" in refusal(write(tmp_path / "d.html", " \n"))
    assert "no text" in refusal(write(tmp_path / "e.csv", "\n\n"))
    assert "no text" in refusal(write(tmp_path / "f.jsonl", "\n\n"))


def test_other_formats_are_refused_by_what_they_are(tmp_path) -> None:
    assert "an image" in refusal(write(tmp_path / "a.txt", b"\x89PNG\r\n\x1a\n" + bytes(50)))
    with zipfile.ZipFile(tmp_path / "b.txt", "w") as archive:
        archive.writestr("a", "b")
    assert "archive" in refusal(tmp_path / "b.txt")


def test_a_format_is_recognised_under_another_name(tmp_path) -> None:
    assert load(write(tmp_path / "page", "<!DOCTYPE html><p>x")).media_type == "text/html"
    assert load(write(tmp_path / "rows", '{"a": 1}\n{"a": 2}\n')).media_type == "application/x-ndjson"
    assert load(write(tmp_path / "data", '[{"a":\n 1}]')).media_type == "application/json"
    assert load(pdf_file(tmp_path / "report.txt", ["words"])).media_type == "application/pdf"


def test_an_unreadable_file_is_refused(tmp_path) -> None:
    source = file_source(write(tmp_path / "a.txt", "a"))
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DocumentError, match="cannot be opened"):
        load_document(source)


# Markdown


def test_markdown_blocks(tmp_path) -> None:
    text = (
        "Title\n=====\nintro\n\n## Part [one](x) ##\ntext\n```py\n# no heading\n\nx = 1\n```\nafter\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\nend\n"
    )
    path = write(tmp_path / "a.md", text)
    assert document_text(load(path)) == text
    assert [(block.kind, block.text, block.headings, block.lead) for block in blocks_of(path)] == [
        ("heading", "Title\n=====\n", (), ""),
        ("paragraph", "intro\n\n", ("Title",), ""),
        ("heading", "## Part [one](x) ##\n", ("Title",), ""),
        ("paragraph", "text\n", ("Title", "Part one"), ""),
        ("code", "```py\n# no heading\n\nx = 1\n```\n", ("Title", "Part one"), ""),
        ("paragraph", "after\n\n", ("Title", "Part one"), ""),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |\n", ("Title", "Part one"), "| a | b |"),
        ("paragraph", "end\n", ("Title", "Part one"), ""),
    ]


# HTML


PAGE = """<!doctype html><html><head><title>Harbour guide</title><style>p {}</style></head><body>
<nav><a href="/">Home</a></nav><main><h1>The harbour</h1>
<p>The stone pier was built in 1874 and is <b>still</b> used by fishing boats in every season of the year.</p>
<h2>Tides</h2><p>At spring tide the water rises by more than four metres, and the old steps disappear under it.</p>
<ul><li>High water at noon</li><li>Low water at six</li></ul>
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
        ("paragraph", "- High water at noon\n- Low water at six"),
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


# Tables


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_rows(tmp_path, separator: str) -> None:
    rows = [
        ["city", "people", "note"],
        ["Oslo", "700000", '"by the\nfjord"'],
        ["Bern", "130000", '"a ""quoted"" word"'],
    ]
    path = write(tmp_path / "a.csv", "".join(separator.join(row) + "\n" for row in rows))
    (block,) = blocks_of(path)
    assert block.text == 'city | people | note\nOslo | 700000 | by the fjord\nBern | 130000 | a "quoted" word\n\n'
    assert (block.kind, block.lead) == ("table", "city | people | note")


def test_tsv_and_a_table_without_header(tmp_path) -> None:
    (block,) = blocks_of(write(tmp_path / "a.tsv", "Oslo\t700000\nBern\t130000\n"))
    assert (block.text, block.lead) == ("Oslo | 700000\nBern | 130000\n\n", "")


def test_large_tables_stream_in_parts(tmp_path) -> None:
    blocks = blocks_of(write(tmp_path / "a.csv", "a,b\n" + "word,other\n" * 2_000))
    assert len(blocks) > 5
    assert {block.lead for block in blocks} == {"a | b"}
    assert max(len(block.text) for block in blocks) < 2_100


# JSON


def test_json_lines_records_and_conversations(tmp_path) -> None:
    records = [
        {"title": "Oslo", "facts": {"people": 700000, "tags": ["fjord", "capital"]}, "none": None},
        {
            "id": 7,
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"text": "Yes?"}]}],
        },
        {"speaker": "Ann", "text": "A turn by itself."},
        "plain",
    ]
    blocks = blocks_of(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records))))
    assert [(block.kind, block.text.strip(), block.lead) for block in blocks] == [
        ("paragraph", "title: Oslo\nfacts.people: 700000\nfacts.tags: fjord, capital", ""),
        ("paragraph", "id: 7", ""),
        ("turn", "user: Hi", "user:"),
        ("turn", "assistant: Yes?", "assistant:"),
        ("turn", "Ann: A turn by itself.", "Ann:"),
        ("paragraph", "plain", ""),
    ]


def test_json_arrays_are_read_element_by_element(tmp_path) -> None:
    values = [{"n": number, "text": "x" * 1_000} for number in range(500)]
    blocks = blocks_of(write(tmp_path / "a.json", json.dumps(values, indent=1)))
    assert len(blocks) == 500
    assert blocks[499].text.startswith("n: 499\ntext: xxx")
    numbers = blocks_of(write(tmp_path / "b.json", "[" + ", ".join(map(str, range(100_000, 130_000))) + "]"))
    assert [int(block.text) for block in numbers] == list(range(100_000, 130_000))


def test_a_json_object_with_long_lists_becomes_sections(tmp_path) -> None:
    value = {"name": "Fleet", "boats": [{"name": "Aurora"}, {"name": "Borea"}]}
    blocks = blocks_of(write(tmp_path / "a.json", json.dumps(value)))
    assert [block.text.strip() for block in blocks] == ["name: Fleet", "boats", "name: Aurora", "name: Borea"]
    assert blocks[-1].headings == ("boats",)


def test_a_single_conversation(tmp_path) -> None:
    value = {"conversation": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
    blocks = blocks_of(write(tmp_path / "a.json", json.dumps(value)))
    assert [block.text for block in blocks] == ["human: Hi\n\n", "gpt: Hello\n\n"]


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("a.json", '{"a": 1', "malformed JSON"),
        ("a.json", '[{"a": 1}, {"a": ]', "malformed JSON"),
        ("a.json", "[1, 2] 3", "more text after"),
        ("a.json", "[1 2]", "expected ',' or ']'"),
        ("a.json", "[1, 2", "expected ',' or ']'"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "line 2"),
        ("a.jsonl", "[" * 100_000 + "\n", "nested too deeply"),
    ],
)
def test_malformed_json_is_refused_with_the_place(tmp_path, name: str, content: str, where: str) -> None:
    assert where in refusal(write(tmp_path / name, content))


# Code


def test_code_definitions(tmp_path) -> None:
    source = (
        "import os\n\n# Doubles.\n@cache\ndef double(x):\n    return 2 * x\n\n\nclass A(B):\n    y = 1\n\n"
        "    async def go(self):\n        pass\n\nz = 3\n"
    )
    path = write(tmp_path / "a.py", source)
    assert document_text(load(path)) == source
    assert [(block.text.splitlines()[0], block.headings) for block in blocks_of(path)] == [
        ("import os", ()),
        ("# Doubles.", ()),
        ("class A(B):", ()),
        ("    async def go(self):", ("class A(B):",)),
    ]


@pytest.mark.parametrize(
    ("name", "source", "starts"),
    [
        (
            "a.c",
            "#include <x.h>\n\nstatic int add(int a, int b)\n{\n  return a;\n}\n\nint main(void) {\n  add(1, 2);\n}\n",
            3,
        ),
        ("a.rs", "use std;\n\npub fn a() {}\n\nimpl Foo {\n    fn b(&self) {}\n}\n", 4),
        ("a.go", "package a\n\nfunc (s *S) Get() int {\n\treturn 1\n}\n\ntype T struct {\n}\n", 3),
        ("a.ts", "import x;\n\nexport class A {\n}\n\nexport const f = (a) => {\n};\n", 3),
        ("a.java", "package a;\n\npublic final class A {\n}\n\ninterface B {}\n", 3),
    ],
)
def test_definitions_of_other_languages(tmp_path, name: str, source: str, starts: int) -> None:
    path = write(tmp_path / name, source)
    assert document_text(load(path)) == source
    assert len(blocks_of(path)) == starts


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
