"""Models of recurrent and attention layers together: rows of fixed size plus keys and values that grow with the text.

jamba, bamba, falcon_h1, zamba2, nemotron_h, granitemoehybrid, qwen3_next, olmo_hybrid, lfm2.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import DynamicCache, PretrainedConfig

from precog.backbones.hosted.runtime import RowShape
from precog.backbones.huggingface.hybrid_mixers import mend
from precog.backbones.huggingface.hybrid_rows import cache_argument, layer_parts
from precog.errors import ModelError, StateError

_CHANGING_ROTATIONS = ("dynamic", "longrope")  # a token's rotation depends on how long the text will be


class HybridRuntime:
    """A hybrid model of transformers as a function of states.

    Args:
        model: a causal language model, in eval mode on its device. Mixers of it are mended where they read on from a
            state otherwise than they read in one pass.
        config: its configuration.

    Raises:
        ModelError: its attention forgets, or rotates keys by the length of the text, or it is loaded in FP64.
    """

    def __init__(self, model: nn.Module, config: PretrainedConfig) -> None:
        rotation = getattr(config, "rope_parameters", None) or {}
        if rotation.get("rope_type") in _CHANGING_ROTATIONS:
            expected = "keys that do not change when the text goes on"
            raise ModelError("this model's rotation of keys is not supported", given=rotation, expected=expected)
        weights = next(model.parameters())
        if weights.dtype == torch.float64:
            raise ModelError("the library cannot mix experts in float64", given=config.model_type, expected="float32")
        mend(model)
        self._model, self._config = model, config
        self._cache_argument = cache_argument(model)
        self.device, self.dtype = weights.device, weights.dtype
        self.vocab_size = int(config.vocab_size)
        self._layers = layer_parts(model, config, self.device)
        fixed = tuple(layer.fixed_reals for layer in self._layers)
        self.shape = RowShape(
            layers=len(self._layers),
            reals=max(fixed),
            layer_reals=fixed,
            averages=not any(layer.token_reals for layer in self._layers),
            token_reals=tuple(layer.token_reals for layer in self._layers),
        )

    def empty(self) -> Float[Tensor, "L S"]:
        """The rows of having read nothing: zeros, with room for no token."""
        return torch.zeros(self.shape.layers, self.shape.reals)

    @torch.no_grad()
    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        rows: Float[Tensor, "L B S"],
        num_tokens: Sequence[int],
        *,
        every: bool,
    ) -> tuple[Float[Tensor, "B n V"], Float[Tensor, "L B S2"]]:
        """Read tokens from rows: those that have read equally many tokens in one pass, since keys carry positions.

        Returns:
            Scores, and new rows: longer than those given where these have no room for the tokens.

        Raises:
            StateError: a row cannot hold the keys of as many tokens as it is said to have read.
        """
        length = tokens.shape[1]
        needed = self.shape.with_room(max(num_tokens)).reals
        if rows.shape[2] < needed:
            given, expected = f"{rows.shape[2]} reals", f"{needed} for {max(num_tokens)} tokens"
            raise StateError("a state is too short for the tokens it has read", given=given, expected=expected)
        reals = max(rows.shape[2], self.shape.with_room(max(num_tokens) + length).reals)
        if len(set(num_tokens)) == 1:
            return self._pass(tokens, rows, num_tokens[0], reals, every=every)
        made = torch.zeros(*rows.shape[:2], reals, device=rows.device)
        scores = torch.zeros(len(num_tokens), length if every else 1, self.vocab_size, device=self.device)
        for count in sorted(set(num_tokens)):
            members = [row for row, read in enumerate(num_tokens) if read == count]
            scores[members], made[:, members] = self._pass(tokens[members], rows[:, members], count, reals, every=every)
        return scores, made

    def _pass(self, tokens: Tensor, rows: Tensor, count: int, reals: int, *, every: bool) -> tuple[Tensor, Tensor]:
        """One pass of rows that have all read ``count`` tokens, on a cache of its own, into rows of ``reals``."""
        cache = DynamicCache(config=self._config)
        if count:
            for number, layer in enumerate(self._layers):
                layer.fill(cache, rows[number].to(self.device), count)
        positions = torch.arange(count, count + tokens.shape[1], device=self.device)
        said = self._model(
            input_ids=tokens.to(self.device),
            position_ids=positions[None].expand(tokens.shape[0], -1),
            use_cache=True,
            logits_to_keep=0 if every else 1,
            **{self._cache_argument: cache},
        )
        made = torch.zeros(*rows.shape[:2], reals, device=rows.device)
        for number, layer in enumerate(self._layers):
            layer.write(cache, made[number])
        return said.logits.float(), made

    @torch.no_grad()
    def one_pass(self, tokens: Int64[Tensor, " T"]) -> Float[Tensor, "T V"]:
        """Scores of the library's own forward pass over a text, from nothing and without any cache: the judge."""
        scores: Tensor = self._model(input_ids=tokens[None].to(self.device), use_cache=False).logits[0]
        return scores.float()
