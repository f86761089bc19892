"""A source ▸ a document whose blocks are read on demand."""

from collections.abc import Callable, Iterable, Iterator

from precog.errors import DocumentError
from precog.text.document import Document, Draft, Warn
from precog.text.encoding import declared_encoding, detect_encoding, survey, text_lines
from precog.text.formats import Family, Format, recognise
from precog.text.loaders.code import code
from precog.text.loaders.docx import docx_document
from precog.text.loaders.html import html
from precog.text.loaders.markdown import markdown
from precog.text.loaders.pdf import pdf
from precog.text.loaders.plain import paragraphs
from precog.text.loaders.records import json_lines, json_text
from precog.text.loaders.tabular import comma_separated, tab_separated
from precog.text.sources import Source

_OF_LINES: dict[Family, Callable[[Iterable[str]], Iterator[Draft]]] = {
    "plain": paragraphs,
    "markdown": markdown,
    "html": html,
    "csv": comma_separated,
    "tsv": tab_separated,
    "json": json_text,
    "jsonl": json_lines,
    "code": code,
}


def load_document(source: Source) -> Document:
    """Hashes a source, recognises its format and encoding, and leaves the reading to `Document.blocks`.

    Raises:
        DocumentError: it cannot be opened, is empty, binary, or of a format that is not read. What only reading shows
            (damage, a change, a scan, an empty text) is raised by `Document.blocks`. Either names the source.
    """
    try:
        return _load(source)
    except DocumentError as error:
        raise _named(error, source) from error
    except OSError as error:
        raise DocumentError("it cannot be read", given=source.name, hint=error.strerror) from error


def _load(source: Source) -> Document:
    with source.open() as stream:
        version = source.version(stream)
        facts = survey(stream)
        if source.version(stream) != version:
            raise _changed()
    if facts.num_bytes == 0:
        raise DocumentError("the file is empty")
    found = recognise(source.name, facts.head)
    if found.family == "foreign":
        raise DocumentError(f"it is {found.explanation}, not text", hint="convert it to text, PDF or DOCX")
    if found.family in ("pdf", "docx"):
        encoding, certain = "", True
    else:
        encoding, certain = detect_encoding(facts)
        if found.family == "html" and not certain:
            encoding = declared_encoding(facts.head) or encoding

    def drafts(warn: Warn) -> Iterator[Draft]:
        return _drafts(source, version, found, encoding, certain, warn)

    return Document(source.name, found.media_type, facts.sha256, drafts, encoding)


def _drafts(
    source: Source, version: tuple[int, int, int], found: Format, encoding: str, certain: bool, warn: Warn
) -> Iterator[Draft]:
    try:
        with source.open() as watched, source.open() as stream:  # the readers of formats may close theirs
            if source.version(stream) != version:
                raise _changed()
            if found.family == "pdf":
                yield from pdf(stream, warn)
            elif found.family == "docx":
                yield from docx_document(stream)
            else:
                lines = text_lines(stream, encoding)
                if not certain:
                    lines = _watched(lines, encoding, warn)
                yield from _OF_LINES[found.family](lines)
            if source.version(watched) != version:
                raise _changed()
    except DocumentError as error:
        raise _named(error, source) from error
    except OSError as error:
        raise DocumentError("it cannot be read", given=source.name, hint=error.strerror) from error
    except Exception as error:  # whatever a damaged file makes a parser of others raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DocumentError("it is damaged", given=f"{source.name}, {reason}") from error


def _changed() -> DocumentError:
    return DocumentError("it changed while it was read", hint="index it again")


def _watched(lines: Iterable[str], encoding: str, warn: Warn) -> Iterator[str]:
    """Passes lines on, and tells at the end how many bytes of them could not be decoded."""
    num_bad = 0
    for line in lines:
        num_bad += line.count("\ufffd")
        yield line
    if num_bad:
        warn(f"{num_bad} places could not be decoded as {encoding} and read U+FFFD")


def _named(error: DocumentError, source: Source) -> DocumentError:
    """The same error, naming the document first."""
    if error.given == source.name:
        return error
    given = source.name if error.given is None else f"{source.name}, {error.given}"
    return DocumentError(error.message, given=given, expected=error.expected, hint=error.hint)
