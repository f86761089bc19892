"""One TENNs block: norm, causal convolution, bottleneck gating, recurrence, readout, gate (paper §3, ERRATA 1–3).

    x̂ = RMSNorm(x);  (v, z) = W_in x̂
    v ← SiLU(b + Σ_j w_j ⊙ v_{t−j})                       the window stays inside its segment
    e = SiLU(W_e v);  Δ = clamp(softplus(W_Δ e + b_Δ), 1e-5, 1), FP32;  β = W_B e + b_B;  r = W_r e + b_r
    diagonal:  h_m ← exp(Δ λ_m) h_m + Δ (β_m v_m + i β_{M+m} v_{M+m});   y = C (r ⊙ n(h)) + D ⊙ v
    outer:     H ← exp(Δ λ) H + Δ β̂ (W_v v)ᵀ;                            y = C n(r̂ᵀ H) + D ⊙ v   (β̂ = β / |β|)
    x ← x + W_out (y ⊙ SiLU(z))

with λ = −softplus(α) + iω, so that |exp(Δλ)| < 1. A block takes its state and its convolution tail and returns new
ones; it keeps nothing between calls.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from precog.backbones.tenns.config import DT_MAX, DT_MIN, TennsConfig
from precog.ops import outer_scan, segment_conv, selective_scan


class Linear(nn.Linear):
    """A linear map whose weight is cast to the dtype of its input: FP32 masters, any compute dtype."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map in the dtype of ``x``."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return functional.linear(x, self.weight.to(x.dtype), bias)


class RmsNorm(nn.Module):
    """Root-mean-square norm over the last axis, computed in FP32."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis; the dtype of ``x`` is kept."""
        wide = x.float() if x.dtype != torch.float64 else x
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return (scaled * self.weight.to(wide.dtype)).to(x.dtype)


class TennsBlock(nn.Module):
    """One layer: ``forward(x, state, tail, …) -> (x, state, tail)``.

    Attributes:
        dropout: share of what the layer adds to the residual stream that is dropped in training.
    """

    def __init__(self, config: TennsConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0
        d, n, g = config.width, config.inner, config.decay_groups
        self.norm = RmsNorm(d)
        self.project_in = Linear(d, 2 * n, bias=False)
        self.conv_weight = nn.Parameter(torch.empty(n, config.kernel))
        self.conv_bias = nn.Parameter(torch.zeros(n))
        self.bottleneck = Linear(n, config.bottleneck, bias=False)
        self.dt_weight = nn.Parameter(torch.empty(g, config.bottleneck))
        self.dt_bias = nn.Parameter(torch.empty(g))
        self.skip = nn.Parameter(torch.ones(n))
        self.project_out = Linear(n, d, bias=False)
        if config.mixer == "diagonal":
            self.alpha = nn.Parameter(torch.empty(config.groups * config.modes_per_group))
            if config.frequencies == "learned":
                self.omega = nn.Parameter(math.pi * torch.arange(config.modes_per_group, dtype=torch.float32))
            self.write = Linear(config.bottleneck, n)
            if config.readout == "question":
                self.read = Linear(config.bottleneck, n)
            self.state_norm = RmsNorm(n) if config.state_norm else None
            self.mix = Linear(n, n, bias=False)
        else:
            self.alpha = nn.Parameter(torch.empty(g))
            self.write = Linear(config.bottleneck, g * config.coefficients)
            self.read = Linear(config.bottleneck, g * config.coefficients)
            self.value = Linear(n, g * config.channels, bias=False)
            # a readout of almost nothing is not blown up to full size: its rounding errors would be blown up with it
            self.state_norm = RmsNorm(config.channels, epsilon=1e-4) if config.state_norm else None
            self.mix = Linear(g * config.channels, n, bias=False)
        if not self.alpha.is_meta:  # a module that only says what its tensors are called
            self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        config = self.config
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=1 / math.sqrt(module.in_features))
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.project_out.weight, std=1 / math.sqrt(config.inner * 2 * config.layers))
        nn.init.uniform_(self.conv_weight, -1 / math.sqrt(config.kernel), 1 / math.sqrt(config.kernel))
        nn.init.normal_(self.dt_weight, std=0.3 / math.sqrt(config.bottleneck))
        low, high, rate = config.timescales
        steps = torch.linspace(math.log(low), math.log(high), config.decay_groups).exp()
        self.dt_bias.copy_(steps + torch.log(-torch.expm1(-steps)))
        self.alpha.fill_(math.log(math.expm1(rate)))
        if config.mixer == "diagonal":
            self.write.bias.fill_(1.0)
            if config.readout == "question":
                self.read.bias.fill_(1.0)
        elif config.first_read == "write":
            self.read.weight.copy_(self.write.weight)

    def _convolve(
        self, v: Float[Tensor, "B T N"], tail: Float[Tensor, "B J N"] | None, segments: Int[Tensor, "B T"] | None
    ) -> Tensor:
        """Causal convolution and SiLU; ``segments`` counts boundary tokens and masks taps that would cross one."""
        return segment_conv(v, self.conv_weight, self.conv_bias, tail, segments)

    def forward(
        self,
        x: Float[Tensor, "B T d"],
        state: Float[Tensor, "B S"] | None,
        tail: Float[Tensor, "B J N"] | None,
        segments: Int[Tensor, "B T"] | None,
        valid: Bool[Tensor, "B T"] | None,
        resets: Bool[Tensor, "B T"] | None,
    ) -> tuple[Float[Tensor, "B T d"], Float[Tensor, "B S"], Float[Tensor, "B T N"], Float[Tensor, "B T g"]]:
        """Read T tokens from a state.

        Args:
            x: residual stream.
            state: recurrent state, FP32; zero when None.
            tail: the last kernel − 1 convolution inputs, oldest first; zeros (or None) at a boundary.
            segments: number of boundary tokens up to and including each token; None carries the window across.
            valid: False at padded tokens, which neither decay nor write.
            resets: True where the recurrent state starts anew (a new document).

        Returns:
            The new residual stream, the new state, the convolution inputs of this pass (for the next tail) and Δ.
        """
        v, z, inputs, e, dt = self.gated(x, tail, segments, valid)
        mixed, state = self.recur(v, e, dt, state, resets)
        return self.joined(x, mixed, v, z), state, inputs, dt

    def gated(
        self,
        x: Float[Tensor, "B T d"],
        tail: Float[Tensor, "B J N"] | None,
        segments: Int[Tensor, "B T"] | None,
        valid: Bool[Tensor, "B T"] | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What comes before the recurrence: v, z, the convolution's inputs, e and Δ; arguments as `forward`."""
        v, z = self.project_in(self.norm(x)).chunk(2, dim=-1)
        inputs = v
        v = self._convolve(v, tail, segments)
        e = functional.silu(self.bottleneck(v))
        dt = self.delta(e, torch.float64 if x.dtype == torch.float64 else torch.float32)
        if valid is not None:
            dt = dt * valid[..., None]
        return v, z, inputs, e, dt

    def delta(self, e: Float[Tensor, "*any b"], dtype: torch.dtype) -> Float[Tensor, "*any g"]:
        """Δ of each group, in FP32 or FP64.

        On a CPU it is computed in FP64, because the last bit of an FP32 product or logarithm there depends on how many
        rows stand beside this one. Packed matrices round that bit to the next BF16 number, and an answer would depend
        on who else asks at the same time.
        """
        is_cpu = e.device.type == "cpu"
        product, wide = (torch.float64, torch.float64) if is_cpu else (e.dtype, dtype)
        raw = functional.linear(e.to(product), self.dt_weight.to(product)).to(wide) + self.dt_bias.to(wide)
        if not self.config.selective:
            raw = self.dt_bias.to(wide).expand_as(raw)
        return functional.softplus(raw).to(dtype).clamp(DT_MIN, DT_MAX)

    def recur(
        self, v: Tensor, e: Tensor, dt: Tensor, state: Tensor | None, resets: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The recurrence over some tokens: what is read out at each of them, and the state after the last."""
        return (self._diagonal if self.config.mixer == "diagonal" else self._outer)(v, e, dt, state, resets)

    def joined(self, x: Tensor, mixed: Tensor, v: Tensor, z: Tensor) -> Tensor:
        """What comes after the recurrence: the new residual stream."""
        y = self.mix(mixed) + self.skip.to(v.dtype) * v
        added: Tensor = self.project_out(y * functional.silu(z))
        if self.dropout:
            added = functional.dropout(added, self.dropout, self.training)
        return x + added

    def decay_rates(self) -> tuple[Tensor, Tensor]:
        """λ as (re [modes], im [modes]) for the diagonal mixer, (re [heads], zeros) for the outer one; FP32."""
        real = -functional.softplus(self.alpha.double() if self.alpha.dtype == torch.float64 else self.alpha.float())
        if self.config.mixer == "outer" or self.config.frequencies == "zero":
            return real, torch.zeros_like(real)
        if self.config.frequencies == "learned":
            omega = self.omega.to(real.dtype)
        else:
            omega = math.pi * torch.arange(self.config.modes_per_group, device=real.device, dtype=real.dtype)
        return real, omega.repeat(self.config.groups)

    def _diagonal(
        self, v: Tensor, e: Tensor, dt: Tensor, state: Tensor | None, resets: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        config = self.config
        real, omega = self.decay_rates()
        beta = self.write(e) if config.selective else self.write.bias.to(v.dtype).expand_as(v)
        turning = None if config.frequencies == "zero" else omega
        shown, final = selective_scan(v, beta, dt, real, turning, state, resets)
        if self.state_norm is not None:
            shown = self.state_norm(shown)
        if config.readout == "question":
            shown = shown * self.read(e)
        return shown, final

    def _outer(
        self, v: Tensor, e: Tensor, dt: Tensor, state: Tensor | None, resets: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        config = self.config
        rows, length, _ = v.shape
        heads, k, p = config.heads, config.coefficients, config.channels
        real, _ = self.decay_rates()
        write = self.address(self.write(e).view(rows, length, heads, k))
        read = self.address(self.read(e).view(rows, length, heads, k))
        value = self.value(v).view(rows, length, heads, p)
        initial = None if state is None else state.view(rows, heads, k, p)
        scaled = write * dt[..., None].to(write.dtype)
        readout, final = outer_scan(dt * real, scaled, value, read, initial, resets)
        if self.state_norm is not None:
            readout = self.state_norm(readout)
        return readout.reshape(rows, length, heads * p), final.reshape(rows, heads * k * p)

    def address(self, keys: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        """Vectors that address the outer mixer's memory, made of a write or read map's output."""
        if self.config.keys == "raw":
            return keys / math.sqrt(keys.shape[-1])
        # unit vectors address the memory, so that what is read back does not depend on their length
        return functional.normalize(keys, dim=-1)
