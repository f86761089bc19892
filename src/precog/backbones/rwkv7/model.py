"""RWKV-7 as a function of states: many rows at once, many tokens at once, over the weights that the package holds.

The package reads one text at a time and writes over the state it is given; here rows go in and new rows come out. The
package's own pass is the judge.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import group_norm, layer_norm, normalize

from precog.backbones.hosted.runtime import RowShape
from precog.backbones.rwkv7.library import LibraryModel
from precog.backbones.rwkv7.scan import wkv_chunked, wkv_loop
from precog.backbones.rwkv7.weights import Rwkv7Shape

SLOWEST = -0.606531  # −exp(−1/2), with the package's digits: log w ≥ it
NORM_EPS = 64e-5


class Rwkv7Runtime:
    """One RWKV-7 model: a row is the wkv state, [value, key] in every head, then the last inputs of both token shifts.

    Args:
        library: the package's model over these weights.
        weights: as `weights.prepare` made them.
        shape: sizes of it.
        device: where its weights are.
        dtype: of its weights and of every product but the recurrence, which is FP32.
        chunked: read many tokens by matrix products rather than one by one.
    """

    def __init__(
        self,
        library: LibraryModel,
        weights: dict[str, Tensor],
        shape: Rwkv7Shape,
        device: torch.device,
        dtype: torch.dtype,
        *,
        chunked: bool = True,
    ) -> None:
        self.device, self.dtype, self.vocab_size, self.chunked = device, dtype, shape.vocabulary, chunked
        self.sizes = shape
        self.library, self.weights = library, weights
        self._attention = tuple(_below(f"blocks.{layer}.att.", weights) for layer in range(shape.layers))
        memory = shape.width * shape.head_size
        self.shape = RowShape(shape.layers, shape.state_reals, window=(memory, shape.state_reals))

    def empty(self) -> Float[Tensor, "L S"]:
        """The rows of having read nothing: zeros."""
        return torch.zeros(self.sizes.layers, self.sizes.state_reals, device=self.device)

    @torch.no_grad()
    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        rows: Float[Tensor, "L B S"],
        num_tokens: Sequence[int],
        *,
        every: bool,
    ) -> tuple[Float[Tensor, "B n V"], Float[Tensor, "L B S"]]:
        """Read tokens from rows in one pass; the number of tokens read before means nothing to this model.

        Args:
            tokens: at least one per row.
            rows: where to start; they are not changed.
            num_tokens: tokens each row has read.
            every: scores after every token, or after the last alone.

        Returns:
            Scores, and new rows.
        """
        weights, width = self.weights, self.sizes.width
        x = weights["emb.weight"][tokens]
        made, first = [], None
        for layer in range(self.sizes.layers):
            block = f"blocks.{layer}."
            memory = rows[layer, :, : -2 * width]
            last_mixed, last_passed = rows[layer, :, -2 * width :].to(self.dtype).chunk(2, dim=-1)
            mixed = self._norm(x, block + "ln1")
            change, memory, first = self._mix_time(layer, mixed, last_mixed, memory, first)
            x = x + change
            passed = self._norm(x, block + "ln2")
            x = x + self._mix_channels(layer, passed, last_passed)
            made.append(torch.cat((memory, mixed[:, -1].float(), passed[:, -1].float()), dim=-1))
        x = self._norm(x if every else x[:, -1:], "ln_out")
        return x @ weights["head.weight"], torch.stack(made)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weights = self.weights
        return layer_norm(x, (self.sizes.width,), weights[name + ".weight"], weights[name + ".bias"])

    def _mix_time(
        self, layer: int, x: Tensor, last: Tensor, memory: Tensor, first: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What a layer takes from other tokens; also its new memory, and the values of the first layer."""
        w = self._attention[layer]
        step = _shifted(x, last) - x
        r = (x + step * w["x_r"]) @ w["receptance.weight"]
        decay = torch.tanh((x + step * w["x_w"]) @ w["w1"]) @ w["w2"]
        k = (x + step * w["x_k"]) @ w["key.weight"]
        from_v = x + step * w["x_v"]
        v = from_v @ w["value.weight"]
        rate = torch.sigmoid(w["a0"] + (x + step * w["x_a"]) @ w["a1"] @ w["a2"])
        gate = torch.sigmoid((x + step * w["x_g"]) @ w["g1"]) @ w["g2"]
        direction = normalize(self._heads(k * w["k_k"]), dim=-1)
        k = k * (1 + (rate - 1) * w["k_a"])
        if first is None:
            first = v
        else:
            v = v + (first - v) * torch.sigmoid(w["v0"] + from_v @ w["v1"] @ w["v2"])
        log_w = SLOWEST * torch.sigmoid((w["w0"] + decay).float())

        parts = (r, log_w, k, v)
        r_heads, log_w, k_heads, v_heads = (self._heads(part).float().transpose(1, 2) for part in parts)
        taken = -direction.float().transpose(1, 2)
        put = (direction * self._heads(rate)).float().transpose(1, 2)
        size = self.sizes.head_size
        state = memory.reshape(len(x), self.sizes.heads, size, size).float()
        scan = wkv_chunked if self.chunked and x.shape[1] > 1 else wkv_loop
        found, state = scan(r_heads, log_w, k_heads, v_heads, taken, put, state)

        found = found.transpose(1, 2).flatten(0, 1).flatten(1).to(x.dtype)
        found = group_norm(found, self.sizes.heads, w["ln_x.weight"], w["ln_x.bias"], NORM_EPS).view_as(x)
        own = self._heads(r * k * w["r_k"]).sum(-1, keepdim=True) * self._heads(v)
        return ((found + own.flatten(2)) * gate) @ w["output.weight"], state.flatten(1), first

    def _mix_channels(self, layer: int, x: Tensor, last: Tensor) -> Tensor:
        weights, prefix = self.weights, f"blocks.{layer}.ffn."
        inner = (x + (_shifted(x, last) - x) * weights[prefix + "x_k"]) @ weights[prefix + "key.weight"]
        return torch.relu(inner) ** 2 @ weights[prefix + "value.weight"]

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.sizes.heads, self.sizes.head_size)

    @torch.no_grad()
    def one_pass(self, tokens: Int64[Tensor, " T"]) -> Float[Tensor, "T V"]:
        """Scores of the package's own pass over a text, from a state of zeros made for it: the judge."""
        size, width = self.sizes.head_size, self.sizes.width
        state = []
        for _ in range(self.sizes.layers):
            state += [torch.zeros(width, dtype=self.dtype, device=self.device) for _ in range(2)]
            state.insert(-1, torch.zeros(self.sizes.heads, size, size, device=self.device))
        scores, _ = self.library.forward(tokens.tolist(), state, True)
        return scores.view(len(tokens), self.vocab_size)


def _below(prefix: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}


def _shifted(x: Tensor, last: Tensor) -> Tensor:
    """Each token's predecessor: the last one read before stands first."""
    return torch.cat((last[:, None], x[:, :-1]), dim=1)
