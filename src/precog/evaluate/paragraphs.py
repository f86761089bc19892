"""The paragraphs of a data set as a small corpus that questions are searched in."""

import io
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from precog.encoders import Encoder, load_encoder
from precog.evaluate.squad_data import Question
from precog.index import HybridIndex, IndexSource
from precog.writing import output_file

__all__ = ["Paragraphs", "kept_keys"]


class Paragraphs:
    """All paragraphs of some questions: hybrid retrieval over them, as in a corpus.

    Args:
        questions: whose paragraphs are searched, in their order.
        encoder_spec: sentence encoder; the default one when None.
        encoder: one that is loaded already.
        keys_folder: where keys are kept for the next time; nowhere when None.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        encoder_spec: str | None = None,
        encoder: Encoder | None = None,
        keys_folder: Path | None = None,
    ) -> None:
        self.texts = list(dict.fromkeys(question.context for question in questions))
        self._encoder = load_encoder(encoder_spec) if encoder is None else encoder
        keys = kept_keys(self.texts, self._encoder, keys_folder)
        source = IndexSource(
            dim=self._encoder.dim,
            generation=0,
            tag=self._encoder.fingerprint,
            chunk_ids=lambda: range(len(self.texts)),
            keys=lambda ids: ((i, keys[i]) for i in (range(len(self.texts)) if ids is None else ids)),
            texts=lambda ids: ((i, self.texts[i]) for i in (range(len(self.texts)) if ids is None else ids)),
        )
        self._index = HybridIndex.build(source)

    def search(self, question: str, k: int) -> tuple[list[str], list[float]]:
        """The k best paragraphs and their scores."""
        hits = self._index.search(question, self._encoder.encode_query(question), k)
        return [self.texts[hit.chunk_id] for hit in hits], [hit.score for hit in hits]


def kept_keys(texts: list[str], encoder: Encoder, folder: Path | None) -> list[Float32[np.ndarray, "m D"]]:
    """The keys of each text, one or several; those kept in a folder if they are of these texts and this encoder.

    Raises:
        StorageError: the folder cannot be written to.
    """
    if folder is None:
        return list(encoder.encode_passages(texts))
    digest = sha256("\0".join([encoder.fingerprint, *texts]).encode()).hexdigest()
    path = folder / f"keys-{digest[:16]}.npz"
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            rows, ends = kept["keys"], kept["ends"]
        if rows.dtype == np.float32 and rows.shape[1:] == (encoder.dim,) and len(ends) == len(texts):
            return np.split(rows, ends[:-1])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass  # not there, or damaged: made again
    keys = list(encoder.encode_passages(texts))
    with output_file(path, "file of keys") as file:
        np.savez(file, keys=np.concatenate(keys), ends=np.cumsum([len(own) for own in keys]))
    return keys
