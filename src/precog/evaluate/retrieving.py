"""Retrieval over the few texts that belong to one question."""

from collections.abc import Sequence

from precog.encoders import Encoder, load_encoder
from precog.evaluate.paragraphs import Paragraphs
from precog.evaluate.squad_data import Question

__all__ = ["encoder_of", "ranked"]


def encoder_of(encoder: Encoder | str | None) -> Encoder:
    """An encoder as it is, or the one that a spec names; the default one for None.

    Raises:
        EncoderError: there is no such encoder.
    """
    return load_encoder(encoder) if encoder is None or isinstance(encoder, str) else encoder


def ranked(question: str, texts: Sequence[str], encoder: Encoder) -> list[tuple[int, float]]:
    """The places of texts and their scores by hybrid retrieval, the best first; of equal texts, the first alone."""
    asked = [Question("", "", text, question, ()) for text in texts]
    found, scores = Paragraphs(asked, encoder=encoder).search(question, len(texts))
    place = {text: index for index, text in reversed(list(enumerate(texts)))}
    return [(place[text], score) for text, score in zip(found, scores, strict=True)]
