"""Forgetting a document, with a proof: every byte of the corpus folder is searched for what it said.

Searched for are, of every chunk: windows of its text that together cover it, the same windows as token ids, and every
64-byte window of its keys and its state. What another document says, too, stays in the corpus and is told apart as
``outside``.
"""

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from jaxtyping import UInt8

from precog.corpus.corpus import refresh_index, settings_of
from precog.errors import BusyError, DamagedCorpusError, DamagedStateError, InputError
from precog.store import Chunk, CorpusStore, Document, Needles, Record, search_folder
from precog.store.failure import acknowledged
from precog.store.proof import OnBytes
from precog.text.sources import printable_path
from precog.text.tokenizer import Tokenizer

_WINDOW_TOKENS = 16
_AGAIN = "run the same command again: it goes on from here"
_KEY_DTYPES = ("<f4", "<f2")  # in the catalogue, and in the exact index


@dataclass(frozen=True)
class ForgetReport:
    """What was forgotten, and what the search for it found.

    Attributes:
        forgotten: documents.
        files_searched: every file of the corpus folder.
        bytes_searched: their sizes, summed.
        searched_for: distinct byte strings.
        hits: how many of them are still somewhere: 0, or something is wrong.
        hit_files: where.
        outside: documents that say some of the same, and how many of its windows.
    """

    forgotten: list[str]
    files_searched: int
    bytes_searched: int
    searched_for: int
    hits: int
    hit_files: list[str] = field(default_factory=list)
    outside: list[dict[str, object]] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "forgotten": self.forgotten,
            "files_searched": self.files_searched,
            "bytes_searched": self.bytes_searched,
            "searched_for": self.searched_for,
            "hits": self.hits,
            "hit_files": self.hit_files,
            "outside": self.outside,
        }


def forget_document(
    corpus: Path, name: str, tokenizer: Tokenizer, on_bytes: OnBytes = lambda done, total: None
) -> ForgetReport:
    """Removes a document and everything that came from it alone, then searches for it.

    Args:
        corpus: the folder.
        name: the document's source as ``precog list`` shows it, or its path.
        tokenizer: of the model that made the corpus.
        on_bytes: told how far the search is.

    A run that was killed, or refused because a reader held the catalogue's log, is finished by the same command: the
    text is gone by then, so what is left to search for is the name.

    Raises:
        InputError: there is no such document.
        BusyError: another process writes, or a reader still holds what was deleted.
    """
    with CorpusStore.open(corpus, write=True) as store:
        rows = _rows(store, name)
        sources = list(dict.fromkeys(row.info.source for row in rows))
        needles = _needles(store, name, rows, tokenizer)
        if rows:
            with store.batch() as batch:
                batch.note_forgetting([name, *sources, *(source.rpartition("/")[2] for source in sources)])
                for row in rows:
                    batch.delete_document(row.id)
        with acknowledged("it is forgotten, but not yet overwritten", _AGAIN):
            try:
                refresh_index(store, settings_of(store).encoder_fingerprint)
            except DamagedCorpusError:  # of another document; the index files must not outlive this one
                store.drop_index()
            store.scrub()
    with acknowledged("it is forgotten and overwritten, but not yet searched for", _AGAIN):
        found = search_folder(corpus, needles, lambda: _left(corpus, tokenizer), on_bytes)
    with contextlib.suppress(BusyError), CorpusStore.open(corpus, write=True) as store:
        store.settle_forgetting(name)
    return ForgetReport(
        sources or [name],
        found.files_searched,
        found.bytes_searched,
        found.searched_for,
        found.hits,
        found.hit_files,
        [{"document": source, "windows": count} for source, count in found.also.items()],
    )


def _rows(store: CorpusStore, name: str) -> list[Document]:
    """The document's rows; none when they are gone and only their traces are left to be removed."""
    for source in (name, printable_path(Path(name))):
        if rows := store.find_documents(source):
            return rows
    if store.is_forgetting(name):
        return []
    known = [row.info.source for row in store.documents()]
    named = [source for source in known if source.rpartition("/")[2] == name]
    if len(set(named)) == 1:
        return store.find_documents(named[0])
    near = named or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `precog list`"
    raise InputError("there is no such document in this corpus", given=name, hint=hint)


def _needles(store: CorpusStore, name: str, rows: list[Document], tokenizer: Tokenizer) -> Needles:
    """What only exists because these documents were read: names, text and token ids, keys and states."""
    strings = [_utf8(row.info.source) for row in rows] or [_utf8(name)]
    for chunk in _chunks(store, rows):
        strings += _windows(chunk, tokenizer, store.layout.token_width)
    states = (part for row in rows for part in _states(store, row))
    return Needles(strings, chain(_keys(store, rows), states))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _chunks(store: CorpusStore, rows: Iterable[Document]) -> Iterator[Chunk]:
    """Their chunks; what is damaged cannot be searched for, and goes all the same."""
    for row in rows:
        for chunk in store.checked_chunks_of(row.id):
            if not isinstance(chunk, DamagedCorpusError):
                yield chunk


def _keys(store: CorpusStore, rows: Iterable[Document]) -> Iterator[UInt8[np.ndarray, " n"]]:
    for row in rows:
        for entry in store.checked_keys_of(row.id):
            if not isinstance(entry, DamagedCorpusError):
                for width in _KEY_DTYPES:
                    for vector in entry.keys.astype(width):
                        yield vector.view(np.uint8)
        for part in store.checked_parts_of(row.id):
            if not isinstance(part, DamagedCorpusError):
                for vector in part.keys:
                    yield vector.view(np.uint8)


def _states(store: CorpusStore, row: Document) -> Iterator[UInt8[np.ndarray, " n"]]:
    """The bytes of the states of a document's chunks and of their parts; those that are damaged are left out."""
    records: list[Callable[[], Record]] = [
        partial(store.read_state, chunk.id) for chunk in _chunks(store, [row]) if chunk.is_stored
    ]
    records += [
        partial(store.read_part, part)
        for part in store.checked_parts_of(row.id)
        if not isinstance(part, DamagedCorpusError) and part.is_stored
    ]
    for read in records:
        with contextlib.suppress(DamagedStateError, DamagedCorpusError):
            record = read()
            yield record.state
            yield record.tau.view(np.uint8)


def _windows(chunk: Chunk, tokenizer: Tokenizer, token_width: int) -> list[bytes]:
    """Windows that cover a chunk, each as text and as token ids."""
    text = chunk.info.context + chunk.info.text
    ids, spans = tokenizer.encode_with_offsets(text)
    windows = []
    for start in range(0, len(ids), _WINDOW_TOKENS):
        part = slice(start, start + _WINDOW_TOKENS)
        windows.append(_utf8(text[spans[part][0][0] : spans[part][-1][1]]))
        windows.append(np.array(ids[part], f"<u{token_width}").tobytes())
    return windows


def _left(corpus: Path, tokenizer: Tokenizer) -> Iterator[tuple[str, npt.NDArray[np.generic] | bytes]]:
    """All that stays in the corpus, and of which document it is."""
    with CorpusStore.open(corpus) as store:
        rows = list(store.documents())
        for row in rows:
            name = row.info.source
            yield name, _utf8(name)
            for chunk in _chunks(store, [row]):
                text = chunk.info.context + chunk.info.text
                yield name, _utf8(text)
                yield name, np.array(tokenizer.encode(text), f"<u{store.layout.token_width}")
            for part in _states(store, row):
                yield "", part
        for vector in _keys(store, rows):
            yield "", vector
