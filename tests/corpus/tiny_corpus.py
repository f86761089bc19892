"""An encoder of word counts, a small corpus, and documents to fill it with."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus.ingest import Ingest
from precog.corpus.report import IngestReport
from precog.corpus.settings import CorpusSettings
from precog.store import CorpusStore
from precog.store.folder import CorpusFolder
from precog.text.sources import find_sources


class WordEncoder:
    """Keys that count words: near where words are shared, the same on every machine."""

    dim = 64
    fingerprint = hashlib.sha256(b"words").hexdigest()
    window_tokens = 1000
    name = "words"

    def encode_query(self, text: str) -> Float32[np.ndarray, " E"]:
        key = np.full(self.dim, 1e-3, np.float32)
        for word in re.findall(r"\w+", text.lower()):
            key[hashlib.sha256(word.encode()).digest()[0] % self.dim] += 1
        return (key / np.linalg.norm(key)).astype(np.float32)

    def encode_passages(self, texts: list[str]) -> list[Float32[np.ndarray, "_ E"]]:
        return [self.encode_query(text)[None] for text in texts]


def make_store(
    folder: Path,
    backbone: TennsBackbone,
    encoder: WordEncoder,
    *,
    chunk_tokens: int = 64,
    layers: str = "all",
    codec: str = "fp16",
    keys: str = "text",
    quality: str = "fast",
) -> CorpusStore:
    settings = CorpusSettings(
        "", "", encoder.fingerprint, chunk_tokens=chunk_tokens, layers=layers, codec=codec, keys=keys, quality=quality
    )
    return CorpusStore.create(
        folder,
        settings=settings.to_json(),
        layout=settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size),
        fingerprint=bytes.fromhex(backbone.fingerprint),
        key_dim=encoder.dim,
    )


def run(
    folder: Path, docs: Path, backbone: TennsBackbone, encoder: WordEncoder, *, prune: bool = False, **made_with: Any
) -> IngestReport:
    if CorpusFolder(folder).exists:
        store = CorpusStore.open(folder, write=True)
    else:
        store = make_store(folder, backbone, encoder, **made_with)
    with store:
        return Ingest(store, backbone, encoder).run(find_sources([docs]), prune=prune)


def write(docs: Path, name: str, text: str) -> Path:
    docs.mkdir(exist_ok=True)
    path = docs / name
    path.write_text(text)
    return path


def numbered(first: int, count: int) -> str:
    """Paragraphs of which no two say the same."""
    return "\n\n".join(
        f"Paragraph {n} tells of the {n}th ship, which sailed in {1500 + n} to port {n * 7}."
        for n in range(first, first + count)
    )


def checksum(folder: Path) -> str:
    with CorpusStore.open(folder) as store:
        return store.checksum()
