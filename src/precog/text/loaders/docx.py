"""DOCX ▸ headings, paragraphs, tables and notes, read through python-docx after the archive was found harmless."""

import re
import zlib
from collections.abc import Iterator
from io import SEEK_END
from typing import BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo

import docx
from defusedxml.common import DefusedXmlException
from defusedxml.sax import make_parser
from docx.document import Document as DocxDocument
from docx.oxml.ns import qn
from lxml import etree
from lxml.etree import _Element

from precog.errors import DocumentError
from precog.text.document import Draft
from precog.text.loaders.table import table

_MAX_XML_BYTES = 64 << 20  # a tree of it takes ten times as much
_MAX_TOTAL_BYTES = 512 << 20
_MAX_PARTS = 10_000
_MAX_RATIO = 200
_RATIO_FROM_BYTES = 8 << 20
_READ_BYTES = 1 << 16
_XML_START = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\x00\s]*<")
_HEADING_NAME = re.compile(r"(?:heading|überschrift|titre|título|titolo|kop)\s*([1-9])", re.IGNORECASE)
_OUTLINE_BODY = 9
_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_TEXT, _TAB, _BREAK, _RETURN, _HYPHEN = qn("w:t"), qn("w:tab"), qn("w:br"), qn("w:cr"), qn("w:noBreakHyphen")
_NOTES = ("footnotes", "endnotes")


def docx_document(stream: BinaryIO) -> Iterator[Draft]:
    """Reads a Word document: body, text boxes, then foot- and endnotes.

    Raises:
        DocumentError: it is damaged, encrypted, a decompression bomb, or its XML declares entities.
    """
    document = _open(stream)
    levels = _heading_levels(document)
    for element in _contents(document.element.body):
        if element.tag == _TABLE:
            yield from table([_cells(row) for row in _within(element, _ROW)])
            continue
        text = _text_of(element).strip()
        if not text:
            continue
        level = levels.get(_style_id(element), 0) or _outline_level(element)
        if level:
            yield Draft(text + "\n\n", kind="heading", level=level, title=" ".join(text.split()))
        else:
            yield Draft(text + "\n\n")
    yield from _notes(document)


def _open(stream: BinaryIO) -> DocxDocument:
    size_bytes = stream.seek(0, SEEK_END)
    try:
        with ZipFile(stream) as archive:
            parts = archive.infolist()
            _refuse_bombs(parts, size_bytes)
            for part in parts:
                if _is_xml(archive, part):
                    _refuse_entities(archive, part)
        stream.seek(0)
        return docx.Document(stream)
    except DocumentError:
        raise
    except BadZipFile as error:
        stream.seek(0)
        if stream.read(8) == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
            raise DocumentError(
                "it is an encrypted or an old binary Word file", hint="save a copy as .docx without a password"
            ) from error
        raise DocumentError("it is a damaged or truncated DOCX", given=str(error)) from error
    except Exception as error:  # a damaged archive can raise anything from inside the parsers
        raise DocumentError("it is a damaged DOCX", given=" ".join(str(error).split())[:200]) from error


def _refuse_bombs(parts: list[ZipInfo], size_bytes: int) -> None:
    """What the parts say of their sizes is an upper bound: the reader stops there, and finds the sum to be wrong."""
    total_bytes = sum(part.file_size for part in parts)
    sizes = [(part.file_size, part.compress_size) for part in parts] + [(total_bytes, size_bytes)]
    is_bomb = any(size > _RATIO_FROM_BYTES and size > _MAX_RATIO * max(1, packed) for size, packed in sizes)
    if is_bomb or total_bytes > _MAX_TOTAL_BYTES or len(parts) > _MAX_PARTS:
        given = f"{total_bytes} bytes unpacked, in {len(parts)} parts"
        raise DocumentError("it is a decompression bomb", given=given)


def _is_xml(archive: ZipFile, part: ZipInfo) -> bool:
    """Whether a part may be read as XML, which does not depend on its name alone.

    Raises:
        DocumentError: it is too much of it.
    """
    with archive.open(part) as stream:
        head = stream.read(64)
    is_xml = part.filename.lower().endswith((".xml", ".rels")) or bool(_XML_START.match(head))
    if is_xml and part.file_size > _MAX_XML_BYTES:
        expected = f"at most {_MAX_XML_BYTES >> 20} MB in one part"
        raise DocumentError("it has too much text for one document", given=part.filename, expected=expected)
    return is_xml


def _refuse_entities(archive: ZipFile, part: ZipInfo) -> None:
    """Parses one XML part and keeps nothing: Word never declares a document type, an attack has to."""
    parser = make_parser()
    parser.forbid_dtd = True
    try:
        with archive.open(part) as stream:
            while data := stream.read(_READ_BYTES):
                parser.feed(data)
        parser.close()
    except DefusedXmlException as error:
        raise DocumentError("its XML declares entities, as attacks do", given=part.filename) from error
    except (zlib.error, EOFError, BadZipFile) as error:
        raise DocumentError("it is a damaged or truncated DOCX", given=part.filename) from error
    except Exception as error:
        raise DocumentError("it is a damaged DOCX: malformed XML", given=part.filename) from error


def _heading_levels(document: DocxDocument) -> dict[str, int]:
    """Style id ▸ heading level, a style's parents included."""
    levels: dict[str, int] = {}
    for style in document.styles:
        element = style.element
        steps = 0
        ancestor = style
        while ancestor is not None and steps < 16:
            name = ancestor.name or ""
            match = _HEADING_NAME.match(name)
            level = 1 if name.lower() == "title" else int(match[1]) if match else _outline_level(ancestor.element)
            if level:
                levels[element.get(qn("w:styleId"))] = level
                break
            ancestor = getattr(ancestor, "base_style", None)
            steps += 1
    return levels


def _outline_level(element: _Element) -> int:
    mark = element.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
    if mark is None:
        return 0
    value = int(mark.get(qn("w:val"), _OUTLINE_BODY))
    return value + 1 if value < _OUTLINE_BODY else 0


def _style_id(paragraph: _Element) -> str:
    style = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
    return "" if style is None else style.get(qn("w:val"), "")


def _contents(element: _Element) -> Iterator[_Element]:
    """Paragraphs and outermost tables in order, those in content controls and text boxes too."""
    for child in element:
        if child.tag == _FALLBACK:
            continue
        if child.tag == _TABLE:
            yield child
        elif child.tag == _PARAGRAPH:
            yield child
            for inner in child:
                yield from _contents(inner)
        else:
            yield from _contents(child)


def _within(element: _Element, tag: str) -> Iterator[_Element]:
    """Descendants of a tag, not looking inside one that was found."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag != _FALLBACK:
            yield from _within(child, tag)


def _cells(row: _Element) -> list[str]:
    cells = []
    for cell in _within(row, _CELL):
        paragraphs = [inner for inner in cell.iter(_PARAGRAPH) if next(inner.iterancestors(_FALLBACK), None) is None]
        cells.append(" ".join(filter(None, (_text_of(paragraph).strip() for paragraph in paragraphs))))
    return cells


def _text_of(paragraph: _Element) -> str:
    """The text of a paragraph without that of text boxes in it; insertions count, deletions do not."""
    parts: list[str] = []

    def collect(element: _Element) -> None:
        for child in element:
            if child.tag in (_PARAGRAPH, _TABLE, _FALLBACK):
                continue
            if child.tag == _TEXT:
                parts.append(child.text or "")
            elif child.tag == _TAB and element.tag == qn("w:r"):
                parts.append("\t")
            elif child.tag in (_BREAK, _RETURN):
                parts.append("\n")
            elif child.tag == _HYPHEN:
                parts.append("-")
            else:
                collect(child)

    collect(paragraph)
    return "".join(parts)


def _notes(document: DocxDocument) -> Iterator[Draft]:
    for relation in document.part.rels.values():
        kind = relation.reltype.rsplit("/", 1)[-1]
        if kind not in _NOTES or relation.is_external:
            continue
        root = etree.fromstring(relation.target_part.blob, etree.XMLParser(resolve_entities=False, no_network=True))
        for element in _contents(root):
            text = _text_of(element).strip() if element.tag == _PARAGRAPH else ""
            if text:
                yield Draft(text + "\n\n")
