"""Subsets of layers whose states are kept; a layer left out continues from the zero state (paper: layer ablation)."""

from dataclasses import dataclass

from precog.errors import UsageError

_FORMS = "all, none, alternate, bottom:N, top:N or a list such as 0,3,5"


@dataclass(frozen=True)
class LayerSubset:
    """Some of a model's layers, counted from the embedding upwards.

    Attributes:
        name: how the subset was asked for.
        num_layers: L, layers of the model.
        indices: the layers kept, ascending.
    """

    name: str
    num_layers: int
    indices: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, num_layers: int) -> "LayerSubset":
        """A subset by name: ``all``, ``none``, ``alternate`` (0, 2, 4 …), ``bottom:N``, ``top:N``, or by list.

        Raises:
            UsageError: the name is unknown, or asks for layers that the model does not have.
        """
        name, _, count = text.strip().partition(":")
        every = range(num_layers)
        if name in ("all", "none", "alternate") and not count:
            step = {"all": every, "none": range(0), "alternate": every[::2]}[name]
            return cls(text.strip(), num_layers, tuple(step))
        if name in ("bottom", "top"):
            if not (count.isascii() and count.isdecimal()) or not 1 <= int(count) <= num_layers:
                raise UsageError("--layers: no such number of layers", given=text, expected=f"1 to {num_layers}")
            kept = every[: int(count)] if name == "bottom" else every[-int(count) :]
            return cls(text.strip(), num_layers, tuple(kept))
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isascii() and part.isdecimal() for part in parts):
            raise UsageError("--layers: unknown subset", given=text, expected=_FORMS)
        indices = sorted({int(part) for part in parts})
        if len(indices) != len(parts) or indices[-1] >= num_layers:
            expected = f"each once, between 0 and {num_layers - 1}"
            raise UsageError("--layers: a layer is repeated or does not exist", given=text, expected=expected)
        return cls(text.strip(), num_layers, tuple(indices))

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return len(self.indices) == self.num_layers
