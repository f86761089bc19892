import json
import random
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

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
