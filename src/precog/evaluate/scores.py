"""What experiments keep of an answer, and how the answers of many questions become the row of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from precog.backbones.protocol import Backbone
from precog.engine.grounded import GroundedSettings
from precog.engine.modes import FreeSettings
from precog.evaluate.metrics import Interval, bootstrap, exact_match, f1, paired_bootstrap
from precog.evaluate.reader import Said

__all__ = ["Decoding", "Scored", "about", "decoding_of", "f1_gain", "gain", "scored", "table_row"]

Decoding = GroundedSettings | FreeSettings
Scored = Mapping[str, Any]
"""One answer as a record keeps it: text, em, f1 (percent), tokens_processed, latency_sec, first_token_sec."""
MAX_FREE_TOKENS = 24


def decoding_of(backbone: Backbone, *, free: bool = False) -> Decoding:
    """How answers are decoded: grounded as the model's card says, or freely and greedily up to 24 tokens.

    Raises:
        UsageError: the card's settings are none.
    """
    return FreeSettings(max_tokens=MAX_FREE_TOKENS) if free else GroundedSettings.from_card(backbone.card.decoding)


def about(backbone: Backbone, codec: str, decoding: Decoding) -> dict[str, object]:
    """What decides every answer beside the data: the model, how its states are stored, how answers are decoded."""
    return {
        "model": backbone.card.name,
        "fingerprint": backbone.fingerprint,
        "encoding": {"mode": backbone.encode_mode, "codec": codec, "dtype": backbone.encoding_dtype},
        "decoding": {"grounded": not isinstance(decoding, FreeSettings), **asdict(decoding)},
    }


def scored(said: Said, answers: Sequence[str]) -> dict[str, object]:
    """An answer and its scores against those that people gave."""
    return {
        "text": said.text,
        "em": exact_match(said.text, answers),
        "f1": f1(said.text, answers),
        "tokens_processed": said.tokens_processed,
        "latency_sec": said.latency_sec,
        "first_token_sec": said.first_token_sec,
    }


def table_row(answers: Sequence[Scored]) -> dict[str, object]:
    """EM and F1 in percent with 95 % bootstrap intervals, tokens and seconds, over the answers of all questions.

    Raises:
        ValueError: there is no answer.
    """
    em, f1_ = bootstrap([answer["em"] for answer in answers]), bootstrap([answer["f1"] for answer in answers])
    return {
        "em": em.mean,
        "em_interval": [em.low, em.high],
        "f1": f1_.mean,
        "f1_interval": [f1_.low, f1_.high],
        "mean_tokens_processed": float(np.mean([answer["tokens_processed"] for answer in answers])),
        "mean_latency_sec": float(np.mean([answer["latency_sec"] for answer in answers])),
        "mean_ttft_sec": float(np.mean([answer["first_token_sec"] for answer in answers])),
    }


def f1_gain(first: Sequence[Scored], second: Sequence[Scored]) -> dict[str, float]:
    """F1 of the first less that of the second, of the same questions, with its paired interval.

    Raises:
        ValueError: they are not as many, or none.
    """
    return gain(paired_bootstrap([answer["f1"] for answer in first], [answer["f1"] for answer in second]))


def gain(interval: Interval) -> dict[str, float]:
    """A value, or a difference, with its interval, as JSON."""
    return {"value": interval.mean, "low": interval.low, "high": interval.high}
