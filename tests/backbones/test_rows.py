"""Rows of a batch: of unequal lengths, side by side, and cut again; each is as if it were alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import InputError, StateError
from precog.state import StateBatch
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
MODEL = TennsBackbone.random("tiny-outer", TOKENIZER)
# in FP64 what is left of a difference is no rounding: a norm of little more than nothing makes FP32's 1e-7 into 2e-5
EXACT = TennsBackbone.wrap(build(TennsConfig.preset("tiny-outer"), 0).double(), TOKENIZER, dtype=torch.float64)


@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    is_live=st.booleans(),
    boundary=st.integers(1, 8),
)
def test_rows_of_unequal_lengths_are_read_as_if_alone(lengths, is_live, boundary):
    start = EXACT.open([EXACT.empty_state()] * len(lengths))
    if is_live:
        start, _ = EXACT.read(start, torch.tensor([[1, 7 + i, 9] for i in range(len(lengths))]))
    rows = [[5 if is_live else 1, *range(20 * i + 10, 20 * i + 9 + length)] for i, length in enumerate(lengths)]
    rows = [[1 if place == boundary else token for place, token in enumerate(row)] for row in rows]
    padded = torch.tensor([row + [0] * (max(lengths) - len(row)) for row in rows])
    batch, hidden = EXACT.read_padded(start, padded, lengths)
    for i, (part, row) in enumerate(zip(start.parts([1] * len(rows)), rows, strict=True)):
        alone, last = EXACT.read(part, torch.tensor([row]))
        torch.testing.assert_close(hidden[i : i + 1], last, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(batch.recurrent[:, i : i + 1], alone.recurrent, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(batch.tail[:, i : i + 1], alone.tail, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(batch.decay_time[:, i : i + 1], alone.decay_time, atol=1e-9, rtol=1e-9)
        assert batch.num_tokens[i : i + 1] == alone.num_tokens


def test_lengths_that_do_not_fit_are_refused():
    batch = MODEL.open([MODEL.empty_state()] * 2)
    for lengths in ([1], [1, 4], [0, 1]):
        with pytest.raises(InputError, match="lengths"):
            MODEL.read_padded(batch, torch.tensor([[1, 5, 6]] * 2), lengths)


def test_batches_side_by_side_and_cut_again():
    one, two = MODEL.open([MODEL.empty_state()]), MODEL.open(MODEL.encode_chunks([[5], [6, 7]]))
    joined = StateBatch.side_by_side([one, two])
    assert joined.num_tokens == (0, 2, 3)
    for part, batch in zip(joined.parts([1, 2]), (one, two), strict=True):
        assert torch.equal(part.recurrent, batch.recurrent)
        assert part.num_tokens == batch.num_tokens
    assert StateBatch.side_by_side([one]) is one
    live, _ = MODEL.read(one, torch.tensor([[1, 5]]))
    with pytest.raises(StateError, match="joined"):
        StateBatch.side_by_side([two, live])
