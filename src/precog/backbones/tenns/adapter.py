"""An adapter on disk: ``adapter.json`` and ``adapter.safetensors``, good for one base and no other.

``adapter.json`` names the base and its fingerprint; a model with an adapter has a fingerprint of its own, so that its
states and those of the base are never taken for each other.
"""

import dataclasses
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from precog.backbones.card import Json, ModelCard, check_unicode, fingerprint, json_text, sorted_json
from precog.backbones.tenns.checkpoint import UNREADABLE, reason_of, weights_digest
from precog.backbones.tenns.lora import LoraSettings, apply_tensors
from precog.backbones.tenns.model import TennsModel
from precog.backbones.tenns.target import check_one_kind, written
from precog.errors import ModelError
from precog.state import titled

CARD_FILE, WEIGHTS_FILE = "adapter.json", "adapter.safetensors"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class AdapterCard:
    """What an adapter says about itself.

    Attributes:
        name: of the adapted model, as people call it.
        base: where its base was: the name of an installed model, or a folder; where it lies now does not matter.
        base_fingerprint: of the base, chunks read once.
        weights_sha256: over the stored tensors.
        rank, alpha, targets: see ``LoraSettings``.
        decoding: settings of grounded decoding that suit the adapted model.
        notes: anything else; neither hashed nor read.
        kind: of adapter.
        format: version of the folder's layout.
    """

    name: str
    base: str
    base_fingerprint: str
    weights_sha256: str
    rank: int
    alpha: float
    targets: list[str]
    decoding: Mapping[str, Json] = field(default_factory=dict)
    notes: Mapping[str, Json] = field(default_factory=dict)
    kind: str = "lora"
    format: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        check_unicode(CARD_FILE, name=self.name, base=self.base)

    @property
    def settings(self) -> LoraSettings:
        """Rank, scale and places."""
        return LoraSettings(rank=self.rank, alpha=self.alpha, targets=tuple(self.targets))

    @property
    def checksum(self) -> str:
        """Hex SHA-256 over everything else."""
        return sha256(sorted_json(dataclasses.asdict(self))).hexdigest()

    def to_json(self) -> str:
        """The text of ``adapter.json``."""
        return json_text({**dataclasses.asdict(self), "checksum": self.checksum})

    @classmethod
    def from_json(cls, text: str) -> "AdapterCard":
        """A card from the text of ``adapter.json``.

        Raises:
            ModelError: it is no JSON object, of another format, or keys are unknown, missing or of another type.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelError("adapter.json is damaged", given=str(error)) from error
        if not isinstance(values, dict):
            raise ModelError("adapter.json is no JSON object", given=type(values).__name__)
        kinds: dict[str, type] = {"rank": int, "format": int, "alpha": float, "targets": list}
        kinds |= {"decoding": dict, "notes": dict}
        known = {entry.name for entry in dataclasses.fields(cls)} | {"checksum"}
        if set(values) != known:
            given = f"missing {sorted(known - set(values))}, unknown {sorted(set(values) - known)}"
            raise ModelError("adapter.json has other keys", given=given, expected=", ".join(sorted(known)))
        for key, value in values.items():
            if type(value) is not kinds.get(key, str):
                expected = kinds.get(key, str).__name__
                raise ModelError(f"adapter.json: {key} has the wrong type", given=repr(value), expected=expected)
        if values["format"] != FORMAT_VERSION or values["kind"] != "lora":
            given, hint = f"{values['kind']} {values['format']}", "install a version of precog-ssm that knows it"
            raise ModelError("adapter.json: unknown format", given=given, expected=f"lora {FORMAT_VERSION}", hint=hint)
        if not all(isinstance(target, str) for target in values["targets"]):
            raise ModelError("adapter.json: targets are no names", given=values["targets"])
        card = cls(**{key: value for key, value in values.items() if key != "checksum"})
        if values["checksum"] != card.checksum:
            raise ModelError("adapter.json was changed after it was saved", given=values["checksum"])
        return card


def is_adapter(folder: Path) -> bool:
    """Whether a folder says that it is an adapter.

    Raises:
        ModelError: it says that it is a model, too.
    """
    check_one_kind(folder)
    return (folder / CARD_FILE).is_file()


def base_fingerprint(card: ModelCard, model: TennsModel) -> str:
    """What an adapter calls its base by."""
    return fingerprint(card, model.config.to_dict(), "once")


def save_adapter(
    folder: Path,
    tensors: Mapping[str, Tensor],
    settings: LoraSettings,
    *,
    name: str,
    base: str,
    base_fingerprint: str,
    decoding: Mapping[str, Json] | None = None,
    notes: Mapping[str, Json] | None = None,
) -> AdapterCard:
    """Write an adapter's folder; in one written before the files are replaced, the card last.

    Args:
        folder: where to.
        tensors: those of ``lora_tensors``.
        settings: what the adapter was made with.
        name: what people call the adapted model.
        base: name or folder of the base.
        base_fingerprint: of the base.
        decoding: settings of grounded decoding that suit the adapted model.
        notes: anything else.

    Raises:
        ModelError: a name is not valid Unicode.
        UsageError: the folder holds files of another origin.
        StorageError: the disk is full or refuses.
    """
    card = AdapterCard(
        name=name,
        base=base,
        base_fingerprint=base_fingerprint,
        weights_sha256=weights_digest(tensors),
        rank=settings.rank,
        alpha=settings.scale * settings.rank,
        targets=list(settings.targets),
        decoding=dict(decoding or {}),
        notes=dict(notes or {}),
    )
    with written(folder, "adapter", replace=True) as temporary:
        save_file({key: value.contiguous() for key, value in tensors.items()}, temporary / WEIGHTS_FILE)
        (temporary / CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    return card


def read_adapter_card(folder: Path) -> AdapterCard:
    """What an adapter's folder says about itself, without its weights.

    Raises:
        ModelError: it cannot be read or is damaged.
    """
    try:
        text = (folder / CARD_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        expected = f"an adapter's folder: {CARD_FILE}, {WEIGHTS_FILE}"
        raise ModelError(f"{CARD_FILE} cannot be read", given=folder, expected=expected) from error
    return AdapterCard.from_json(text)


def apply_adapter(folder: Path, base: TennsModel, base_card: ModelCard) -> tuple[TennsModel, ModelCard]:
    """The base, in place, with an adapter added to its weights, and the card of the adapted model.

    Args:
        folder: of the adapter.
        base: its weights in FP32, whatever they are stored as.
        base_card: of the base.

    Raises:
        ModelError: the adapter is damaged, or was made for another base.
    """
    card = read_adapter_card(folder)
    found = base_fingerprint(base_card, base)
    if found != card.base_fingerprint:
        merge = shlex.join(["precog", "train", "merge", str(folder), "--base"])
        raise ModelError(
            "this adapter was made for another model",
            given=titled(base_card.name, found),
            expected=titled(card.base, card.base_fingerprint),
            hint=f"merge it with its own base ({merge} DIR --out DIR), or train one for {base_card.name}: "
            "precog train lora --model DIR --data FILE",
        )
    tensors: dict[str, Tensor] = {}
    path = folder / WEIGHTS_FILE
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # not a mapping
    except UNREADABLE as error:
        raise ModelError("the adapter's weights are damaged", given=f"{path}: {reason_of(error)}") from error
    digest = weights_digest(tensors)
    if digest != card.weights_sha256:
        given = f"{path}: sha256 {digest}"
        raise ModelError(
            "the adapter's weights are not those that were saved", given=given, expected=card.weights_sha256
        )
    apply_tensors(base, card.settings, tensors)
    parts = [base_card.weights_sha256, card.weights_sha256, card.kind, card.rank, card.alpha, card.targets]
    adapted = dataclasses.replace(
        base_card,
        name=card.name,
        weights_sha256=sha256(json.dumps(parts).encode()).hexdigest(),
        decoding=card.decoding,
        confidence={},  # was fitted to the base's scores
        notes=card.notes,
    )
    return base, adapted
