"""Verifying passes where the laws hold and fails where somebody breaks one."""

import dataclasses

import numpy as np
import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.engine import question_segment, verify_chunk
from precog.engine.conformance import CONTINUATION_BOUND
from precog.errors import InputError
from precog.state import LayerSubset, State, codec_named
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
CHUNK = TOKENIZER.encode("A state that has been read is never read again. It is kept, and injected when asked for.")


def asked(model):
    return question_segment(model, "What is never read again, and what is it good for, if one may ask?")[:41]


@pytest.mark.parametrize(
    ("preset", "mode"), [("tiny", "once"), ("tiny-outer", "once"), ("tiny-outer", "twice-reversed")]
)
def test_injection_equals_reading(preset, mode):
    model = TennsBackbone.random(preset, TOKENIZER, encode_mode=mode)
    found = verify_chunk(model, CHUNK, asked(model))
    assert found.ok, found.violations
    assert found.exact.max_abs_logit_error <= 1e-4
    assert found.coded["fp32"].max_abs_logit_error <= 1e-4
    assert found.live.max_abs_logit_error <= 1e-4
    assert found.exact.argmax_agreement == 1
    assert 0 < found.coded["fp16"].max_relative_state_error <= CONTINUATION_BOUND
    assert 0 < found.coded["fp16"].max_codec_error <= 1
    assert found.coded["fp32"].max_codec_error == 0
    assert found.exact.positions == 2 * len(asked(model)) - 1
    assert found.cuts > 10
    both = found.joined(found)
    assert both.ok
    assert both.exact.positions == 2 * found.exact.positions


def test_a_stored_state_of_another_text_is_a_violation():
    model = TennsBackbone.random("tiny-outer", TOKENIZER)
    [mine, other] = model.encode_chunks([CHUNK, CHUNK[:-4]])
    options = {"stored_codec": "fp32", "codecs": (), "live_cuts": False, "every_length": False}
    right = verify_chunk(model, CHUNK, asked(model), stored=mine, **options)
    assert right.ok
    assert right.exact.positions == len(asked(model))
    wrong = verify_chunk(model, CHUNK, asked(model), stored=other, label="chunk 7", **options)
    assert not wrong.ok
    assert "chunk 7: stored state" in wrong.violations[0]
    coded = verify_chunk(model, CHUNK, asked(model), stored=other, **{**options, "stored_codec": "fp16"})
    assert "times the bound of its codec" in coded.violations[0]


def test_states_with_layers_left_out_are_measured_not_judged():
    model = TennsBackbone.random("tiny", TOKENIZER)
    layers = LayerSubset.parse("bottom:1", model.spec.layers)
    codec = codec_named("fp16")
    [state] = model.encode_chunks([CHUNK])
    stored = codec.decode(codec.encode(state, model.spec, layers), model.spec, layers, num_tokens=state.num_tokens)
    found = verify_chunk(model, CHUNK, asked(model)[:3], stored=stored, layers=layers, live_cuts=False)
    assert found.ok
    assert found.coded["stored"].max_abs_logit_error > 1e-4
    assert found.coded["stored"].max_codec_error <= 1
    [other] = model.encode_chunks([CHUNK[:-1]])
    assert not verify_chunk(model, CHUNK, asked(model)[:3], stored=other, layers=layers, live_cuts=False).ok


def test_a_state_that_is_not_finite_is_a_violation():
    model = TennsBackbone.random("tiny", TOKENIZER)
    [state] = model.encode_chunks([CHUNK])
    broken = State(
        torch.full_like(state.recurrent, float("nan")),
        tail=None,
        num_tokens=1,
        fingerprint=model.fingerprint,
        decay_time=state.decay_time,
    )
    found = verify_chunk(model, CHUNK, asked(model), stored=broken, stored_codec="fp32", codecs=(), live_cuts=False)
    assert not found.ok
    assert not verify_chunk(model, CHUNK, asked(model), stored=broken, codecs=(), live_cuts=False).ok


def test_a_convolution_that_loses_its_tail_is_found(monkeypatch):
    model = TennsBackbone.random("tiny", TOKENIZER)
    pass_ = TennsBackbone._after

    def forgetful(self, batch, recurrent, tail, decay_time, num_tokens):
        return dataclasses.replace(pass_(self, batch, recurrent, tail, decay_time, num_tokens), tail=tail * 0)

    monkeypatch.setattr(TennsBackbone, "_after", forgetful)
    found = verify_chunk(model, CHUNK, asked(model), codecs=())
    assert [line.split(":")[1].strip() for line in found.violations] == ["live states"]


def test_other_compute_dtypes_are_measured_not_judged():
    network = build(TennsConfig.preset("tiny-outer"))
    model = TennsBackbone.wrap(network, TOKENIZER, dtype=torch.bfloat16)
    found = verify_chunk(model, CHUNK, asked(model)[:5])
    assert found.ok
    assert 1e-4 < found.exact.max_abs_logit_error < 0.5
    assert np.isfinite(found.live.max_abs_logit_error)


def test_verifying_needs_a_question():
    model = TennsBackbone.random("tiny", TOKENIZER)
    with pytest.raises(InputError):
        verify_chunk(model, CHUNK, [])
