"""Documents that are small and become large, or that are nested to break a reader."""

import io
import re
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import docx
import pytest

from precog.errors import DocumentError
from precog.text.document import document_text
from precog.text.loaders import docx as docx_loader
from precog.text.loading import load_document
from precog.text.sources import file_source

GIB = 1 << 30


def refusal(path: Path) -> str:
    with pytest.raises(DocumentError) as refused:
        document_text(load_document(file_source(path)))
    assert "\n" not in str(refused.value)
    assert path.name in str(refused.value)
    return str(refused.value)


def parts_of(text: str = "The Aurora is twelve metres long.") -> dict[str, bytes]:
    buffer = io.BytesIO()
    document = docx.Document()
    document.add_paragraph(text)
    document.save(buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {part.filename: archive.read(part) for part in archive.infolist()}


def packed(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def zeros(num_bytes: int) -> tuple[bytes, int]:
    """So many zero bytes, deflated, and their sum; blocks that depend on nothing before them may be repeated."""
    packer, piece = zlib.compressobj(9, zlib.DEFLATED, -15), bytes(1 << 20)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    check = 0
    for _ in range(num_bytes >> 20):
        check = zlib.crc32(piece, check)
    return block * (num_bytes >> 20) + packer.flush(), check


def raw_zip(entries: list[tuple[str, bytes, int, int]]) -> bytes:
    """An archive of deflated parts that say of themselves what one likes: name, packed bytes, sum, size."""
    out, directory = io.BytesIO(), io.BytesIO()
    for name, data, check, size in entries:
        facts = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, check, len(data), size, len(name), 0)
        directory.write(b"PK\x01\x02\x14\x00" + facts + struct.pack("<HHHII", 0, 0, 0, 0, out.tell()) + name.encode())
        out.write(b"PK\x03\x04" + facts + name.encode() + data)
    start, catalogue = out.tell(), directory.getvalue()
    out.write(catalogue)
    out.write(struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(entries), len(entries), len(catalogue), start, 0))
    return out.getvalue()


def deflated(content: bytes) -> tuple[bytes, int, int]:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush(), zlib.crc32(content), len(content)


@pytest.mark.parametrize("name", ["word/media/picture.png", "word/document.xml"])
def test_ten_megabytes_that_become_ten_gigabytes_are_refused_unread(tmp_path: Path, name: str) -> None:
    data, check = zeros(GIB)
    entries = [(part, *deflated(content)) for part, content in parts_of().items()]
    entries += [(f"{name}{number}", data, check, GIB) for number in range(10)]
    archive = raw_zip(entries)
    assert 9e6 < len(archive) < 12e6
    path = tmp_path / "a.docx"
    path.write_bytes(archive)
    tracemalloc.start()
    assert "decompression bomb" in refusal(path)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_a_part_that_lies_about_its_size_is_read_no_further(tmp_path: Path) -> None:
    data, check = zeros(64 << 20)
    entries = [(part, *deflated(content)) for part, content in parts_of().items() if part != "word/document.xml"]
    (tmp_path / "a.docx").write_bytes(raw_zip([*entries, ("word/document.xml", data, check, 1000)]))
    tracemalloc.start()
    assert "damaged" in refusal(tmp_path / "a.docx")
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_many_parts_that_are_each_harmless_are_refused_together(tmp_path: Path) -> None:
    data, check = zeros(4 << 20)
    entries = [(part, *deflated(content)) for part, content in parts_of().items()]
    (tmp_path / "a.docx").write_bytes(raw_zip([*entries, *[(f"x{n}", data, check, 4 << 20) for n in range(40)]]))
    assert "decompression bomb" in refusal(tmp_path / "a.docx")
    many = {**parts_of(), **{f"x{number}": b"" for number in range(10_001)}}
    assert "decompression bomb" in refusal(packed(tmp_path / "b.docx", many))


def test_text_without_end_is_too_much_for_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docx_loader, "_MAX_XML_BYTES", 1 << 10)
    assert "too much text" in refusal(packed(tmp_path / "a.docx", parts_of()))


LAUGHS = "<!DOCTYPE lolz [<!ENTITY a0 'ha'>" + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10))
OUTSIDE = "<!DOCTYPE x [<!ENTITY a9 SYSTEM 'file:///etc/hostname'>"


@pytest.mark.parametrize("declaration", [LAUGHS + "]>", OUTSIDE + "]>"])
@pytest.mark.parametrize("name", ["word/document.xml", "word/document.bin"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused_whatever_the_part_is_called(
    tmp_path: Path, declaration: str, name: str, encoding: str
) -> None:
    parts = parts_of("HERE")
    text = parts.pop("word/document.xml").decode()
    start = text.index("<w:document")
    laughing = f'<?xml version="1.0" encoding="{encoding}"?>' + declaration + text[start:].replace("HERE", "&a9;")
    parts = {
        part: content.replace(b"/word/document.xml", f"/{name}".encode()).replace(b"word/document.xml", name.encode())
        for part, content in parts.items()
    }
    parts[name] = laughing.encode(encoding)
    assert "declares entities" in refusal(packed(tmp_path / "a.docx", parts))


def test_an_archive_inside_is_not_opened(tmp_path: Path) -> None:
    data, check = zeros(256 << 20)
    inner = raw_zip([("bomb", data, check, 256 << 20)])
    path = packed(tmp_path / "a.docx", {**parts_of(), "word/embeddings/inner.docx": inner})
    assert document_text(load_document(file_source(path))) == "The Aurora is twelve metres long.\n\n"
    nested = packed(tmp_path / "b.docx", {"inner.docx": inner})
    assert "damaged DOCX" in refusal(nested)
    for name, content in (("c.zip", inner), ("c.txt", inner), ("c.gz", b"\x1f\x8b\x08" + bytes(100))):
        (tmp_path / name).write_bytes(content)
        assert "not text" in refusal(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", '{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        ("a.jsonl", "[" * 100_000 + "\n", "nested too deeply"),
        ("a.jsonl", "9" * 100_000 + "\n", "malformed JSON"),
    ],
)
def test_nesting_breaks_no_reader(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    assert re.search(message, refusal(tmp_path / name))


def test_xml_is_nested_no_deeper_than_the_parser_allows(tmp_path: Path) -> None:
    parts = parts_of("HERE")
    parts["word/document.xml"] = parts["word/document.xml"].replace(
        b"<w:body>", b"<w:body>" + b"<w:sdt>" * 50_000 + b"</w:sdt>" * 50_000
    )
    assert "damaged" in refusal(packed(tmp_path / "a.docx", parts))
