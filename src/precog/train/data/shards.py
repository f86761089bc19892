"""Token streams for language modelling: memory-mapped shards with the places where documents start.

A stream is a folder::

    00000.npy        uint16 [N]  tokens; every segment is opened by ``<s>``
    00000.docs.npy   int64 [D]   where documents start, rising, the first at 0
    meta.json        format, tokenizer checksum, source files, sizes, CRC32

A segment is a run of whole paragraphs or sentences of at most ``segment_tokens`` tokens with its ``<s>``, which is how
the model meets text when it answers; the recurrent state goes on from segment to segment and is reset where a document
starts, which only ``.docs.npy`` tells.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from precog.errors import TrainingError
from precog.questions.spans import split_sentences
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.data.arrays import mapped, read_meta, write_array, write_meta
from precog.train.data.documents import Document
from precog.train.data.rows import crc32_of
from precog.train.data.tokens import BOUNDARY_ID, Pieces

__all__ = ["SEGMENT_TOKENS", "Shard", "TokenStream", "merge_shards", "segments", "tokens_of", "write_shard"]

FORMAT = 1
SEGMENT_TOKENS = 256
SHARD_TOKENS = 1 << 24
_VOCABULARY = 32_000


@dataclass(frozen=True, slots=True)
class Shard:
    """Tokens and the indices at which documents start."""

    tokens: NDArray[np.uint16]
    documents: NDArray[np.int64]


class TokenStream:
    """A folder of shards, memory-mapped.

    Args:
        folder: the stream.
        verify: compare every shard with its checksum.
        tokenizer_sha256: the tokenizer that must have made it.

    Raises:
        TrainingError: the folder is missing, empty, truncated, damaged, or of another format or tokenizer.
    """

    def __init__(self, folder: Path, *, verify: bool = True, tokenizer_sha256: str = MISTRAL_SHA256) -> None:
        self.folder = Path(folder)
        meta = _meta(self.folder)
        if meta.get("tokenizer_sha256") != tokenizer_sha256:
            raise TrainingError(
                "the token stream was made with another tokenizer",
                given=f"{folder}: {meta.get('tokenizer_sha256')}",
                expected=tokenizer_sha256,
                hint="prepare it again",
            )
        self.shards: list[Shard] = []
        try:
            listed = [
                (Path(str(e["name"])).name, int(e["tokens"]), int(e["documents"]), dict(e["crc32"]))
                for e in meta["shards"]
            ]
            self.vocabulary = int(meta["vocabulary"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise TrainingError("meta.json of a token stream is damaged", given=self.folder, hint=str(error)) from error
        for name, num_tokens, num_documents, checksums in listed:
            path, documents_path = self.folder / f"{name}.npy", self.folder / f"{name}.docs.npy"
            tokens = cast("NDArray[np.uint16]", _checked(path, np.uint16, num_tokens, checksums, verify))
            documents = cast("NDArray[np.int64]", _checked(documents_path, np.int64, num_documents, checksums, verify))
            if not num_tokens or not num_documents:
                raise TrainingError("a token shard is empty", given=path)
            if documents[0] or documents[-1] >= num_tokens or (np.diff(documents) < 1).any():
                raise TrainingError(
                    "the documents of a token shard do not start in order",
                    given=documents_path,
                    expected="rising from 0",
                    hint="prepare it again",
                )
            self.shards.append(Shard(tokens, np.asarray(documents)))
        if not self.shards:
            raise TrainingError("a token stream holds no shard", given=self.folder)
        self.num_tokens = sum(len(shard.tokens) for shard in self.shards)
        self.num_documents = sum(len(shard.documents) for shard in self.shards)


def _meta(folder: Path) -> dict[str, Any]:
    meta = read_meta(folder, "a token stream", "make one with `precog train-data --stream`")
    if "shards" not in meta or meta.get("format") != FORMAT:
        raise TrainingError(
            "a token stream of another format", given=f"{folder}: {meta.get('format')}", expected=FORMAT
        )
    return meta


def _checked(
    path: Path, dtype: type[np.generic], length: int, checksums: Mapping[str, int], verify: bool
) -> NDArray[np.generic]:
    array = mapped(path)
    if array.dtype != dtype or array.shape != (length,):
        raise TrainingError(
            "a token shard has another shape",
            given=f"{path}: {array.dtype} {list(array.shape)}",
            expected=f"{np.dtype(dtype)} [{length}]",
        )
    if verify and crc32_of(path) != checksums.get(path.name):
        raise TrainingError("a token shard is damaged", given=path, expected=f"crc32 {checksums.get(path.name)}")
    return array


def segments(document: Document, pieces: Pieces, segment_tokens: int = SEGMENT_TOKENS) -> list[list[int]]:
    """Token runs of a document, each opened by ``<s>`` and at most ``segment_tokens`` long.

    Paragraphs are kept whole where they fit; longer ones are cut between sentences, and a sentence that is longer
    still between tokens. A segment's tokens are those of its text.
    """
    lines = [document.title, *document.paragraphs] if document.title else list(document.paragraphs)
    room = segment_tokens - 1
    groups: list[list[tuple[str, list[int]]]] = [[]]
    size = 0
    for line, ids in zip(lines, pieces.encode(lines), strict=True):
        for text, tokens in [(line, ids)] if len(ids) <= room else _cut(line, room, pieces):
            if groups[-1] and size + 2 + len(tokens) > room:  # a line break may change a token or two
                groups.append([])
                size = 0
            groups[-1].append((text, tokens))
            size += 2 + len(tokens)
    joined = pieces.encode(["\n".join(text for text, _ in group) for group in groups if len(group) > 1])
    again = iter(joined)
    out: list[list[int]] = []
    for group in groups:
        whole = group[0][1] if len(group) == 1 else next(again) if group else []
        parts = [whole] if len(whole) <= room else [tokens for _, tokens in group]
        out += [[BOUNDARY_ID, *part] for part in parts if part]
    return out


def _cut(line: str, room: int, pieces: Pieces) -> list[tuple[str, list[int]]]:
    """A long paragraph as runs of whole sentences of at most ``room`` tokens."""
    texts = [line[a:b] for a, b in split_sentences(line)]
    runs: list[tuple[str, list[int]]] = []
    for text, ids in zip(texts, pieces.encode(texts), strict=True):
        if runs and len(runs[-1][1]) + len(ids) <= room:
            runs[-1] = (f"{runs[-1][0]} {text}", runs[-1][1] + ids)
        elif len(ids) <= room:
            runs.append((text, ids))
        else:
            runs += [(pieces.decode(ids[i : i + room]), ids[i : i + room]) for i in range(0, len(ids), room)]
    return runs


def tokens_of(documents: Iterable[Document], pieces: Pieces, segment_tokens: int = SEGMENT_TOKENS) -> Shard:
    """Documents as one shard."""
    tokens: list[NDArray[np.uint16]] = []
    starts, at = [], 0
    for document in documents:
        parts = segments(document, pieces, segment_tokens)
        if not parts:
            continue
        starts.append(at)
        array = np.array([i for part in parts for i in part], dtype=np.uint16)
        tokens.append(array)
        at += len(array)
    joined = np.concatenate(tokens) if tokens else np.zeros(0, np.uint16)
    return Shard(joined, np.array(starts, dtype=np.int64))


def write_shard(folder: Path, name: str, shard: Shard) -> None:
    """Write a shard's two files; the folder is not a stream until :func:`merge_shards` has sealed one."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_array(folder / f"{name}.npy", np.uint16, shard.tokens.shape, [shard.tokens])
    write_array(folder / f"{name}.docs.npy", np.int64, shard.documents.shape, [shard.documents])


def merge_shards(
    parts: Sequence[Path], folder: Path, notes: Mapping[str, object], shard_tokens: int = SHARD_TOKENS
) -> None:
    """Join parts (``….npy`` with ``….docs.npy`` beside them) into shards of about ``shard_tokens``, atomically."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True, mode=0o700)
    entries: list[dict[str, object]] = []
    group: list[Path] = []
    size = 0
    for path in [*parts, None]:
        length = len(mapped(path)) if path is not None else 0
        if group and (path is None or size + length > shard_tokens):
            entries.append(_joined(group, temporary, f"{len(entries):05d}", size))
            group, size = [], 0
        if path is not None and length:
            group.append(path)
            size += length
    meta: dict[str, object] = {
        "format": FORMAT,
        "tokenizer_sha256": MISTRAL_SHA256,
        "vocabulary": _VOCABULARY,
        "shards": entries,
        "notes": dict(notes),
    }
    write_meta(temporary, meta)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def _joined(parts: Sequence[Path], folder: Path, name: str, size: int) -> dict[str, object]:
    path, documents_path = folder / f"{name}.npy", folder / f"{name}.docs.npy"
    write_array(path, np.uint16, (size,), (mapped(part) for part in parts))
    starts, at = [], 0
    for part in parts:
        starts.append(cast("NDArray[np.int64]", mapped(part.with_name(f"{part.stem}.docs.npy"))) + at)
        at += len(mapped(part))
    documents = np.concatenate(starts)
    write_array(documents_path, np.int64, documents.shape, [documents])
    checksums = {}
    for file_path in (path, documents_path):
        file_path.chmod(0o600)
        checksums[file_path.name] = crc32_of(file_path)
    return {"name": name, "tokens": size, "documents": len(documents), "crc32": checksums}
