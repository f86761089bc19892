"""RWKV-7's recurrence from any state: a loop over tokens, and the same in chunks by matrix products.

    S_t = S_{t−1} diag(w_t) + S_{t−1} a_t b_tᵀ + v_t k_tᵀ,    y_t = S_t r_t        (arXiv:2503.14456, eq. 16–17)

Inside a chunk, with D_t = w_1 ⋯ w_t and u_t = S_{t−1} a_t:

    S_t = S_0 D_t + Σ_{s≤t} (u_s b_sᵀ + v_s k_sᵀ) D_t / D_s
    u_t = S_0 (D_{t−1} a_t) + Σ_{s<t} u_s (b_s · a_t D_{t−1} / D_s) + v_s (k_s · a_t D_{t−1} / D_s)

so that U solves a unit lower triangular system, all of it but S_0 known before the first chunk is read.
"""

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK = 16  # D_0 / D_t ≤ exp(0.61 · 16) = 16,000: far from what FP32 can hold, and products lose no digits to it

Along = Float[Tensor, "B H T N"]
Wkv = Float[Tensor, "B H N N"]


def wkv_loop(r: Along, log_w: Along, k: Along, v: Along, a: Along, b: Along, state: Wkv) -> tuple[Along, Wkv]:
    """Token by token: the reference.

    Args:
        r: what is asked of the state.
        log_w: logarithms of the decay, at most 0.
        k: keys.
        v: values.
        a: directions that are taken out of the state.
        b: what is put there instead, as the part of a that is kept, negated.
        state: before the first token, [value, key].

    Returns:
        What was found after every token, and the state after the last.
    """
    found = []
    for t in range(r.shape[2]):
        taken = state @ a[:, :, t, :, None]
        state = state * log_w[:, :, t, None].exp() + taken @ b[:, :, t, None] + v[:, :, t, :, None] @ k[:, :, t, None]
        found.append((state @ r[:, :, t, :, None])[..., 0])
    return torch.stack(found, dim=2), state


def wkv_chunked(r: Along, log_w: Along, k: Along, v: Along, a: Along, b: Along, state: Wkv) -> tuple[Along, Wkv]:
    """The same, 16 tokens at a time; see `wkv_loop`."""
    length = r.shape[2]
    size = min(CHUNK, length)
    short = -length % size
    if short:  # tokens that change nothing: no decay, nothing taken, nothing put in
        r, log_w, k, v, a, b = (torch.nn.functional.pad(part, (0, 0, 0, short)) for part in (r, log_w, k, v, a, b))
    r, log_w, k, v, a, b = (part.reshape(*state.shape[:2], -1, size, r.shape[3]) for part in (r, log_w, k, v, a, b))
    passed = log_w.cumsum(3)  # log D_t
    before = passed - log_w  # log D_{t−1}
    whole = passed[:, :, :, -1:]
    grown = (-passed).exp()
    r, a = r * passed.exp(), a * before.exp()
    b_up, k_up = (b * grown).mT, (k * grown).mT
    b_end, k_end = b * (whole - passed).exp(), k * (whole - passed).exp()
    identity = torch.eye(size, dtype=r.dtype, device=r.device)
    solve = torch.linalg.solve_triangular(
        identity - (a @ b_up).tril(-1), torch.cat((a, (a @ k_up).tril(-1) @ v), dim=-1), upper=False, unitriangular=True
    )
    from_state, from_values = solve.split(a.shape[-1], dim=-1)
    r_b = (r @ b_up).tril()
    own = (r @ k_up).tril() @ v
    added = v.mT @ k_end
    decay = whole.exp()
    found = []
    for chunk in range(r.shape[2]):
        turned = state.mT
        taken = from_state[:, :, chunk] @ turned + from_values[:, :, chunk]
        found.append(r[:, :, chunk] @ turned + r_b[:, :, chunk] @ taken + own[:, :, chunk])
        state = state * decay[:, :, chunk] + taken.mT @ b_end[:, :, chunk] + added[:, :, chunk]
    return torch.cat(found, dim=2)[:, :, :length], state
