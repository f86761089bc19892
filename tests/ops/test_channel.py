"""The recurrence of channels with a vector each: the scan against the loop, in any number of pieces."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precog.ops.channel import channel_loop, channel_scan


def _case(rows: int, length: int, channels: int, coordinates: int, seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    rates = -16 * normal(channels, coordinates).abs()
    return (
        normal(rows, length, channels),
        normal(rows, length, channels).abs(),
        rates,
        normal(rows, length, coordinates),
        normal(rows, length, coordinates),
        normal(rows, channels, coordinates),
    )


@given(
    rows=st.integers(1, 3),
    length=st.integers(1, 40),
    pieces=st.integers(1, 7),
    channels=st.integers(1, 5),
    coordinates=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_the_scan_equals_the_loop_in_any_number_of_pieces(rows, length, pieces, channels, coordinates, seed):
    case = _case(rows, length, channels, coordinates, seed)
    kept = [part.clone() for part in case]
    readouts, final = channel_loop(*case)
    for cut in (None, min(pieces, length)):
        scanned, state = channel_scan(*case, cut)
        assert (scanned - readouts).abs().max() <= 1e-11
        assert (state - final).abs().max() <= 1e-11
    assert all(torch.equal(part, before) for part, before in zip(case, kept, strict=True))


def test_a_scan_goes_on_where_another_ended():
    x, dt, rates, write, read, initial = _case(2, 23, 4, 3, 0)
    whole, last = channel_scan(x, dt, rates, write, read, initial)
    state, parts = initial, []
    for part in (slice(0, 1), slice(1, 9), slice(9, 23)):
        said, state = channel_scan(x[:, part], dt[:, part], rates, write[:, part], read[:, part], state)
        parts.append(said)
    assert (torch.cat(parts, 1) - whole).abs().max() <= 1e-11
    assert (state - last).abs().max() <= 1e-11


@pytest.mark.parametrize("pieces", [1, 5])
def test_decays_too_strong_for_exp_to_undo_lose_nothing(pieces):
    x, dt, rates, write, read, initial = _case(1, 20, 3, 2, 1)
    readouts, final = channel_loop(x, dt * 1e4, rates, write, read, initial)
    scanned, state = channel_scan(x, dt * 1e4, rates, write, read, initial, pieces)
    assert torch.isfinite(scanned).all()
    torch.testing.assert_close(scanned, readouts, rtol=1e-12, atol=0)
    torch.testing.assert_close(state, final, rtol=1e-12, atol=0)
