"""What rounding states costs: their bytes, their loading, what the model says after them, and its answers.

Every paragraph is read once. Its state goes through each codec and back; the question is read from each of them, and
from the state as it was.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.engine.grounded import GroundedSettings
from precog.engine.templates import question_segment
from precog.evaluate.metrics import bootstrap, exact_match, f1, paired_bootstrap
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.scores import gain
from precog.evaluate.squad_data import Question, ids_sha256
from precog.state import Codec, State, StateSpec, codec_named

EXACT = "fp32"
_LOADS = 7


@dataclass
class _Measured:
    """Of one codec, over all questions."""

    largest: float = 0.0
    sum_abs: float = 0.0
    tokens: int = 0
    agreeing: int = 0
    layers: list[Float32[Tensor, " L"]] = field(default_factory=list)
    em: list[float] = field(default_factory=list)
    f1: list[float] = field(default_factory=list)

    def compare(self, logits: Tensor, expected: Tensor) -> None:
        off = (logits - expected).abs()
        self.largest = max(self.largest, float(off.max()))
        self.sum_abs += float(off.mean(1).sum())
        self.tokens += len(off)
        self.agreeing += int((logits.argmax(1) == expected.argmax(1)).sum())


def evaluate_codecs(
    questions: Sequence[Question],
    backbone: Backbone,
    codecs: Sequence[str],
    *,
    answers: bool = True,
    on_question: Callable[[int], None] = lambda done: None,
) -> dict[str, object]:
    """Measures codecs on the same questions.

    Args:
        questions: that are asked, each of its own paragraph.
        backbone: the model.
        codecs: their names; ``fp32`` is what they are compared with.
        answers: whether questions are answered, too, by grounded decoding.
        on_question: called with the number of questions done.

    Returns:
        The JSON object of ``precog eval codecs``. Per codec: ``state_bytes``; ``load_sec``, from a file in the page
        cache to a state; ``max_abs_logit_error`` and ``mean_abs_logit_error`` against FP32 over all tokens of the
        questions and all words; ``argmax_agreement``; ``layer_errors``, ‖Δh‖/‖h‖ of each layer, its mean over
        questions; ``em``, ``f1`` with intervals, and ``f1_gain_over_fp32`` of the same questions; None without answers.

    Raises:
        UsageError: there is no such codec.
    """
    chosen = {name: codec_named(name) for name in dict.fromkeys((EXACT, *codecs))}
    reader = ParagraphReader(backbone, EXACT, GroundedSettings.from_card(backbone.card.decoding))
    found = {name: _Measured() for name in chosen}
    state = backbone.empty_state()
    for done, question in enumerate(questions, 1):
        state = reader.state(question.context)
        ids = question_segment(backbone, question.question)
        _, expected = backbone.prefill_logits(ids, state)
        for name, codec in chosen.items():
            back = codec.rounded(state, backbone.spec)
            logits = expected if name == EXACT else backbone.prefill_logits(ids, back)[1]
            found[name].compare(logits, expected)
            found[name].layers.append(relative_errors(back, state))
            if answers:
                said = reader.answer_from(back, question.question, [question.context]).text
                found[name].em.append(exact_match(said, question.answers))
                found[name].f1.append(f1(said, question.answers))
        on_question(done)
    exact = found[EXACT]
    return {
        "codecs": {
            name: {
                "state_bytes": codec.encoded_bytes(backbone.spec),
                "load_sec": load_seconds(codec, state, backbone.spec),
                **_figures(found[name], exact),
            }
            for name, codec in chosen.items()
        },
        "n": len(questions),
        "ids_sha256": ids_sha256(questions),
        "question_tokens": exact.tokens,
        "model": backbone.card.name,
        "fingerprint": backbone.fingerprint,
        "dtype": backbone.encoding_dtype,
    }


def relative_errors(rounded: State, exact: State) -> Float32[Tensor, " L"]:
    """‖Δh‖ / ‖h‖ of each layer; 0 for a layer that remembers nothing."""
    size = exact.recurrent.norm(dim=1)
    error = (rounded.recurrent - exact.recurrent).norm(dim=1)
    return torch.where(size > 0, error / size.clamp_min(torch.finfo(size.dtype).tiny), error)


def load_seconds(codec: Codec, state: State, spec: StateSpec) -> float:
    """From a file in the page cache to a state: the shortest of several times."""
    data = codec.encode(state, spec)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        path.write_bytes(data)
        times = []
        for _ in range(_LOADS):
            started = time.perf_counter()
            with path.open("rb", buffering=0) as file:
                stored = np.fromfile(file, np.uint8, os.fstat(file.fileno()).st_size)
            codec.decode(stored, spec, num_tokens=state.num_tokens)
            times.append(time.perf_counter() - started)
    return min(times)


def _figures(measured: _Measured, exact: _Measured) -> dict[str, object]:
    answered = bool(measured.em)
    layers = torch.stack(measured.layers).mean(0)
    return {
        "max_abs_logit_error": measured.largest,
        "mean_abs_logit_error": measured.sum_abs / measured.tokens,
        "argmax_agreement": measured.agreeing / measured.tokens,
        "mean_layer_error": float(layers.mean()),
        "layer_errors": layers.tolist(),
        "em": gain(bootstrap(measured.em)) if answered else None,
        "f1": gain(bootstrap(measured.f1)) if answered else None,
        "f1_gain_over_fp32": gain(paired_bootstrap(measured.f1, exact.f1)) if answered else None,
    }
