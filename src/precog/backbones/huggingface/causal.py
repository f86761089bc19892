"""What every causal model of the library shares: its head, where it computes, and its own pass as the judge."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from precog.backbones.hosted.runtime import RowShape
from precog.errors import ModelError


class CausalModel:
    """A loaded causal language model, read on from rows by its own weights and never by its own cache.

    Args:
        model: of the library, in eval mode on its device.
        head: where the module that scores tokens stands in it.

    Attributes:
        shape: of its rows; whoever derives from this says it.
        vocab_size: scores after every token.
        device: where it computes.
        dtype: compute dtype.
    """

    shape: RowShape

    def __init__(self, model: nn.Module, head: str = "lm_head") -> None:
        self._model = model
        self._head = part(model, head)
        weight = weight_of(self._head)
        self.vocab_size = weight.shape[0]
        self.device = weight.device
        self.dtype = weight.dtype

    @property
    def num_parameters(self) -> int:
        """Weights, tied ones once."""
        return sum(weight.numel() for weight in self._model.parameters())

    def empty(self) -> Float[Tensor, "L S"]:
        """Zeros: what every text starts from, unless a model says otherwise."""
        return torch.zeros(self.shape.layers, self.shape.reals)

    def one_pass(self, tokens: Int64[Tensor, " T"]) -> Float[Tensor, "T V"]:
        """Scores of the library's own forward pass over a text, from nothing and without any cache: the judge."""
        with torch.no_grad():
            scores: Tensor = self._model(input_ids=tokens[None], use_cache=False).logits[0]
        return scores

    def _scores(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self._head(hidden.to(self.dtype))
        return scores.float()


def part(module: nn.Module, name: str) -> nn.Module:
    """A module inside another, by its dotted name.

    Raises:
        ModelError: the installed version of the library builds this model differently.
    """
    try:
        return module.get_submodule(name)
    except AttributeError as error:
        raise _unknown(module, name) from error


def weight_of(module: nn.Module, name: str = "weight") -> nn.Parameter:
    """A weight inside a module, by its dotted name.

    Raises:
        ModelError: the installed version of the library builds this model differently.
    """
    try:
        return module.get_parameter(name)
    except AttributeError as error:
        raise _unknown(module, name) from error


def bias_of(module: nn.Module) -> nn.Parameter | None:
    """The bias of a layer, where it has one."""
    bias = module._parameters.get("bias")
    return bias if isinstance(bias, nn.Parameter) else None


def _unknown(module: nn.Module, name: str) -> ModelError:
    return ModelError(
        "this version of transformers builds the model in another way than the adapter knows",
        given=f"{type(module).__name__} without {name}",
        hint="install a version of the tested range: pip install 'precog-ssm[hf]'",
    )
