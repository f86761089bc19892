"""Mamba and Falcon-Mamba: passes of our own over the library's weights, from any state.

The library reads several tokens from a state as if the state were not there (its scan takes none), and only one token
at a time as it should. Here the scan has an initial state, so that a question costs one pass.

A row is the state [D, N] of the scan, then the last K − 1 inputs of the convolution [K − 1, D], oldest first.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import conv1d, linear, softplus
from transformers import PretrainedConfig, PreTrainedModel

from precog.backbones.hosted.runtime import RowShape
from precog.backbones.huggingface.causal import CausalModel
from precog.ops import channel_scan


class MambaRuntime(CausalModel):
    """A Mamba-1 model (arXiv 2312.00752) of the library, Falcon-Mamba's RMS norms of Δ, B and C included.

    Args:
        model: ``MambaForCausalLM`` or ``FalconMambaForCausalLM``, in eval mode, on its device.
        config: its configuration.
    """

    def __init__(self, model: PreTrainedModel, config: PretrainedConfig) -> None:
        super().__init__(model)
        self._backbone: Any = model.backbone
        self._inner, self._coordinates = int(config.intermediate_size), int(config.state_size)
        self._delay = int(config.conv_kernel) - 1
        self._wide_residual = bool(config.residual_in_fp32)
        reals = self._inner * self._coordinates
        end = reals + self._delay * self._inner
        self.shape = RowShape(layers=int(config.num_hidden_layers), reals=end, window=(reals, end))

    @torch.no_grad()
    def forward(
        self, tokens: Int64[Tensor, "B T"], rows: Float[Tensor, "L B S"], num_tokens: Sequence[int], *, every: bool
    ) -> tuple[Float[Tensor, "B n V"], Float[Tensor, "L B S"]]:
        """Read tokens from rows in one pass; see `Runtime`."""
        hidden = self._backbone.embeddings(tokens)
        made = torch.empty_like(rows)
        for layer, block in enumerate(self._backbone.layers):
            normed = block.norm(hidden.to(block.norm.weight.dtype))
            mixed, made[layer] = self._mix(block.mixer, normed, rows[layer])
            hidden = (hidden.float() if self._wide_residual and hidden.dtype.itemsize < 4 else hidden) + mixed
        if not every:
            hidden = hidden[:, -1:]
        return self._scores(self._backbone.norm_f(hidden)), made

    def _mix(self, mixer: Any, hidden: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        start, end = self.shape.window
        state = row[:, :start].reshape(len(row), self._inner, self._coordinates)
        window = row[:, start:end].reshape(len(row), self._delay, self._inner).to(hidden.dtype)
        mixed, final, leaving = read_mixer(mixer, hidden, state, window)
        return mixed, torch.cat((final.flatten(1), leaving.flatten(1).float()), dim=1)


def read_mixer(
    mixer: Any,  # of one of three classes that have nothing in common but their weights' names
    hidden: Float[Tensor, "B T d"],
    state: Float[Tensor, "B D N"],
    window: Float[Tensor, "B J D"],
) -> tuple[Float[Tensor, "B T d"], Float[Tensor, "B D N"], Float[Tensor, "B J D"]]:
    """One Mamba-1 mixer of the library (Mamba, Falcon-Mamba, Jamba) from an initial state.

    Args:
        mixer: the module; its weights are used, its own pass is not.
        hidden: what it reads, normed.
        state: of its scan, FP32 or FP64.
        window: the last inputs of its convolution, oldest first.

    Returns:
        What it says, the state, and the window after the last token.
    """
    fed, gate = mixer.in_proj(hidden).chunk(2, dim=-1)
    inputs = torch.cat((window, fed), dim=1)
    kernel = mixer.conv1d
    convolved = conv1d(inputs.transpose(1, 2), kernel.weight, kernel.bias, groups=kernel.groups)
    value = mixer.act(convolved.transpose(1, 2))
    coordinates = state.shape[2]
    step, write, read = mixer.x_proj(value).split([mixer.time_step_rank, coordinates, coordinates], dim=-1)
    if hasattr(mixer, "dt_layernorm"):
        step, write, read = mixer.dt_layernorm(step), mixer.b_layernorm(write), mixer.c_layernorm(read)
    dtype = state.dtype
    projection = mixer.dt_proj
    dt = softplus(linear(step, projection.weight).to(dtype) + projection.bias.to(dtype))
    rates = -mixer.A_log.to(dtype).exp()
    readouts, final = channel_scan(value.to(dtype), dt, rates, write.to(dtype), read.to(dtype), state)
    said = (readouts + value.to(dtype) * mixer.D.to(dtype)).to(hidden.dtype)
    return mixer.out_proj(said * mixer.act(gate)), final, inputs[:, inputs.shape[1] - window.shape[1] :]
