"""Which model a command opens."""

from dataclasses import dataclass, replace
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.backbones.registry import find_model, load_backbone
from precog.errors import ModelError


@dataclass(frozen=True)
class ModelChoice:
    """Which model to open, and how; None leaves it to the folder's own, the environment or the installation.

    Attributes:
        name: folder or installed name.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        threads: CPU threads.
        loaded: a model that is open already: it is the one, whatever else is said.
    """

    name: str | None = None
    device: str = "auto"
    threads: int | None = None
    loaded: Backbone | None = None

    def load(self, encode_mode: str) -> Backbone:
        """Opens the model."""
        if self.loaded is not None:
            return self.loaded
        return load_backbone(self.name, encode_mode=encode_mode, device=self.device, threads=self.threads)

    def folder(self) -> Path:
        """Where the model is; its name where it was handed over open."""
        if self.loaded is not None and self.name is None:
            return Path(self.loaded.card.name)
        return find_model(self.name)

    def open(self, made_by: str, encode_mode: str) -> Backbone:
        """The model that was chosen, else the one that made the states, else the installed one."""
        choice = self
        if choice.name is None and choice.loaded is None:
            try:
                found = find_model(made_by)
            except ModelError as gone:
                try:
                    found = find_model()
                except ModelError as error:
                    hint = "bring it back, or choose one with --model"
                    raise ModelError(
                        "the model that this was made with is gone", given=made_by, expected=gone.expected, hint=hint
                    ) from error
            choice = replace(choice, name=str(found))
        return choice.load(encode_mode)
