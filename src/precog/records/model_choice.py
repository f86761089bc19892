"""Which model a command opens."""

from dataclasses import dataclass, replace
from pathlib import Path

from precog.backbones.protocol import Backbone, RereadingBackbone
from precog.backbones.registry import find_model, load_backbone
from precog.backbones.template import Template
from precog.config import Settings, expanded
from precog.errors import ModelError


@dataclass(frozen=True)
class ModelChoice:
    """Which model to open, and how; None leaves it to the folder's own, the environment or the installation.

    Attributes:
        name: folder or installed name.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        threads: CPU threads.
        dtype: compute dtype: ``auto``, ``float32``, ``bfloat16`` or ``packed``.
        template: text around chunks and questions in place of the model's own.
        loaded: a model that is open already: it is the one, whatever else is said but how it reads chunks.
    """

    name: str | None = None
    device: str = "auto"
    threads: int | None = None
    dtype: str = "auto"
    template: Template | None = None
    loaded: Backbone | None = None

    @classmethod
    def of(cls, settings: Settings) -> "ModelChoice":
        """What the settings of a run say.

        Raises:
            ModelError: the template cannot be read.
        """
        template = None if settings.template is None else Template.read(expanded(settings.template))
        return cls(settings.model, settings.device, settings.threads, settings.dtype, template)

    def template_for(self, kept: str) -> str:
        """The template, as JSON, of what is made anew: the one given, else what was kept if its model stays."""
        if self.template is not None:
            return self.template.to_json()
        return kept if self.name is None and self.loaded is None else ""

    def load(self, encode_mode: str, made_in: str = "") -> Backbone:
        """Opens the model; ``made_in`` is the dtype of states that are at hand."""
        if self.loaded is not None:
            loaded = self.loaded
            return loaded.with_encode_mode(encode_mode) if isinstance(loaded, RereadingBackbone) else loaded
        return load_backbone(
            self.name,
            encode_mode=encode_mode,
            device=self.device,
            threads=self.threads,
            dtype=self.dtype,
            template=self.template,
            made_in=made_in,
        )

    def folder(self) -> Path:
        """Where the model is; its name where it was handed over open."""
        if self.loaded is not None and self.name is None:
            return Path(self.loaded.card.name)
        return find_model(self.name)

    def or_maker(self, made_by: str, template: str = "") -> "ModelChoice":
        """The choice, or the model and template that made some states where nothing else was chosen.

        Args:
            made_by: folder or name of the model that made them; where it is gone, the installed one stands in.
            template: what stood around chunks and questions then, as `Template.to_json` wrote it.

        Raises:
            ModelError: neither that model nor any other is installed.
        """
        choice = self
        if choice.template is None and template:
            choice = replace(choice, template=Template.from_json(template))
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
        return choice

    def open(self, made_by: str, encode_mode: str, template: str = "", made_in: str = "") -> Backbone:
        """The model that was chosen, else the one that made the states, else the installed one.

        Args:
            made_by: folder or name of the model that made them.
            encode_mode: how chunks are read.
            template: what stood around chunks and questions then, as `Template.to_json` wrote it; one that was chosen
                now is preferred.
            made_in: dtype that the states were made in.
        """
        return self.or_maker(made_by, template).load(encode_mode, made_in)

    def check_found(self, made_by: str, is_its_own: bool, what: str) -> None:
        """Refuses to read texts again with the model that happens to be installed, unless it is the same one.

        Args:
            made_by: folder or name of the model that made the states.
            is_its_own: whether the model that is open is that one.
            what: "corpus" or "memory".

        Raises:
            ModelError: nobody named a model, and that one is not where it was.
        """
        if self.name is None and self.loaded is None and not is_its_own and is_lost(made_by):
            hint = "say where it is now, or which other model is to read the texts: --model DIR"
            raise ModelError(f"the model that made this {what} is not where it was", given=made_by, hint=hint)


def is_lost(made_by: str) -> bool:
    """Whether a model that a folder names is not to be found there any more."""
    try:
        find_model(made_by)
    except ModelError:
        return bool(made_by)
    return False
