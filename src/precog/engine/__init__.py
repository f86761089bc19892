"""Tokens and states only: prefill, decoding, grounded decoding, the modes of answering, conformance, memory."""

from precog.engine.conformance import Comparison, Conformance, verify_chunk
from precog.engine.decode import DecodedToken, decode
from precog.engine.grounded import Grounded, GroundedSettings, Source, Span, ground
from precog.engine.horizon import Horizon, HorizonSettings, measure_horizon
from precog.engine.modes import Answer, FreeSettings, answer_in_context, answer_inject, answer_none
from precog.engine.sampling import Sampling
from precog.engine.suffixes import build_suffix_array, check_suffix_array
from precog.engine.templates import question_segment

__all__ = [
    "Answer",
    "Comparison",
    "Conformance",
    "DecodedToken",
    "FreeSettings",
    "Grounded",
    "GroundedSettings",
    "Horizon",
    "HorizonSettings",
    "Sampling",
    "Source",
    "Span",
    "answer_in_context",
    "answer_inject",
    "answer_none",
    "build_suffix_array",
    "check_suffix_array",
    "decode",
    "ground",
    "measure_horizon",
    "question_segment",
    "verify_chunk",
]
