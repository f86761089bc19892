"""Tokens and states only: prefill, decoding, grounded decoding, the modes of answering, conformance, memory."""

from precog.engine.composed import (
    DEFAULT_RULE,
    DEFAULT_TEMPERATURE,
    RULES,
    Composed,
    Composing,
    answer_composed,
)
from precog.engine.conformance import Comparison, Conformance, verify_chunk
from precog.engine.decode import DecodedToken, decode
from precog.engine.grounded import Grounded, GroundedSettings, Span, ground
from precog.engine.horizon import Horizon, HorizonSettings, measure_horizon
from precog.engine.mask import Source
from precog.engine.mixture import decode_mixture, ground_mixture
from precog.engine.modes import Answer, FreeSettings, answer_in_context, answer_inject, answer_mixture, answer_none
from precog.engine.read_on import read_on
from precog.engine.replay import Replayed, replay
from precog.engine.sampling import Sampling
from precog.engine.speaking import Spoken, speak, telling
from precog.engine.speech import OnText, Speech
from precog.engine.suffixes import build_suffix_array, check_suffix_array
from precog.engine.templates import question_segment
from precog.engine.trajectory import trajectory

__all__ = [
    "DEFAULT_RULE",
    "DEFAULT_TEMPERATURE",
    "RULES",
    "Answer",
    "Comparison",
    "Composed",
    "Composing",
    "Conformance",
    "DecodedToken",
    "FreeSettings",
    "Grounded",
    "GroundedSettings",
    "Horizon",
    "HorizonSettings",
    "OnText",
    "Replayed",
    "Sampling",
    "Source",
    "Span",
    "Speech",
    "Spoken",
    "answer_composed",
    "answer_in_context",
    "answer_inject",
    "answer_mixture",
    "answer_none",
    "build_suffix_array",
    "check_suffix_array",
    "decode",
    "decode_mixture",
    "ground",
    "ground_mixture",
    "measure_horizon",
    "question_segment",
    "read_on",
    "replay",
    "speak",
    "telling",
    "trajectory",
    "verify_chunk",
]
