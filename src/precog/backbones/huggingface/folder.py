"""A folder as transformers writes it: configuration, weights in safetensors, and a model loaded from nothing else.

Pickled weights are never opened and code of the folder is never run. What is missing is named: the library itself
would fill it with random numbers and go on.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers import logging as library_logging

from precog.backbones.card import Json, sorted_json
from precog.backbones.huggingface.families import FAMILIES
from precog.errors import ModelError

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_BLOCK_BYTES = 1 << 22
_DTYPES = ("F64", "F32", "F16", "BF16")
_NAMED = 3  # missing tensors that an error names

# what says nothing about what a state means: who wrote the file, ids of control tokens (the tokenizer's digest has
# them), how to generate and to train
_VOLATILE = re.compile(
    r"_.*|transformers_version|(torch_)?dtype|architectures|auto_map|use_cache|.*_token_id|id2label|label2id"
    r"|initializer_.*|.*dropout.*|output_(hidden_states|attentions|scores|router_logits)|return_dict|use_mambapy|use_associative_scan|rescale_prenorm_residual"
    r"|time_step_(init_scheme|scale)|problem_type|tokenizer_class|max_length|min_length|do_sample|temperature|top_[kp]"
)


@dataclass(frozen=True)
class Folder:
    """A model on disk, looked at but not loaded.

    Attributes:
        path: of the folder.
        config: ``config.json``.
        weight_files: in the order of their names.
    """

    path: Path
    config: dict[str, Json]
    weight_files: tuple[Path, ...]

    @classmethod
    def read(cls, path: Path) -> "Folder":
        """Looks at a folder.

        Raises:
            ModelError: its configuration or weights are missing or damaged, or of a kind that cannot be used.
        """
        config = _read_object(path / "config.json")
        _check_type(path, config)
        if "quantization_config" in config:
            hint = "give the model in full precision"
            raise ModelError("weights quantised by another library are not read", given=path, hint=hint)
        if "transformers_weights" in config:  # the files that are read would be others than those that are hashed
            given, hint = config["transformers_weights"], f"name the file {WEIGHTS} and take the key out of config.json"
            raise ModelError("config.json says that the weights are elsewhere", given=given, hint=hint)
        if (path / "adapter_config.json").exists():
            raise ModelError("this folder holds an adapter", given=path, hint="merge it into its base model first")
        files = _weight_files(path)
        for file in files:
            _check_dtypes(file)
        return cls(path, config, files)

    @property
    def model_type(self) -> str:
        """The architecture, as transformers names it."""
        return str(self.config["model_type"])

    @property
    def name(self) -> str:
        """What people call the model: its folder, or its id where it lies in a hub cache."""
        parts = self.path.absolute().parts
        if len(parts) > 2 and parts[-2] == "snapshots" and parts[-3].startswith("models--"):
            return parts[-3].removeprefix("models--").replace("--", "/")
        return self.path.resolve().name

    def meaning(self) -> dict[str, Json]:
        """The part of the configuration that decides what a state means."""
        return {key: value for key, value in self.config.items() if not _VOLATILE.fullmatch(key)}

    def config_sha256(self) -> str:
        """Hex digest of `meaning`."""
        return sha256(sorted_json(self.meaning())).hexdigest()

    def weights_sha256(self) -> str:
        """Hex digest of the weight files: two fine-tunes of one shape are two models.

        Raises:
            ModelError: a file cannot be read.
        """
        total = sha256()
        for file in self.weight_files:
            digest = sha256()
            try:
                with file.open("rb") as stream:
                    while block := stream.read(_BLOCK_BYTES):
                        digest.update(block)
            except OSError as error:
                raise ModelError("a weight file cannot be read", given=file, hint=str(error.strerror)) from error
            total.update(digest.digest())
        return total.hexdigest()

    def load(self, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
        """The causal language model, in eval mode on a device, every weight of it from the folder.

        Raises:
            ModelError: tensors are missing, damaged or of another shape than the configuration says.
        """
        with quiet():
            try:
                config = AutoConfig.from_pretrained(self.path, local_files_only=True, trust_remote_code=False)
                model, report = AutoModelForCausalLM.from_pretrained(
                    self.path,
                    config=config,
                    dtype=dtype,
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                    ignore_mismatched_sizes=True,  # so that the report has them
                    output_loading_info=True,
                )
            except Exception as error:  # whatever the library or its validators raise at a bad file
                raise ModelError(f"the model cannot be loaded: {_line(error)}", given=self.path) from error
        self._check_complete(report)
        loaded: PreTrainedModel = model.to(device).eval().requires_grad_(False)
        return loaded

    def _check_complete(self, report: Mapping[str, Collection[object]]) -> None:
        """Refuses a model of which the library made up a part."""
        shapes = sorted(str(entry[0]) for entry in report["mismatched_keys"] if isinstance(entry, tuple))
        missing = sorted(str(key) for key in report["missing_keys"] if str(key) not in shapes)
        for names, what in ((missing, "missing from"), (shapes, "of another shape than config.json says in")):
            if names:
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                are = "tensor is" if len(names) == 1 else "tensors are"
                given = ", ".join(names[:_NAMED]) + more
                raise ModelError(f"{len(names)} {are} {what} {self.path}", given=given, hint="fetch the model again")


def _check_type(path: Path, config: dict[str, Json]) -> None:
    """Refuses what has no state, or none that anybody here reads on from."""
    model_type = config.get("model_type")
    if model_type in FAMILIES:
        return
    supported = ", ".join(sorted(FAMILIES))
    if "auto_map" in config:
        message = f"architecture {model_type} needs code of its own, which is never run"
        raise ModelError(message, given=path, expected=supported)
    if _is_transformer(str(model_type)):
        raise ModelError(f"{model_type} is a transformer: it has no recurrent state", given=path, expected=supported)
    raise ModelError("this architecture is not supported", given=model_type, expected=supported)


def _is_transformer(model_type: str) -> bool:
    """Whether the library knows it as a model whose whole memory is attention."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

    if model_type not in CONFIG_MAPPING:
        return False
    kind = CONFIG_MAPPING[model_type]
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return False
    layers = getattr(kind(), "layer_types", None) or ()
    stateful = getattr(MODEL_FOR_CAUSAL_LM_MAPPING[kind], "_is_stateful", False)
    return not stateful and not any(layer in ("linear_attention", "conv", "hybrid") for layer in layers)


def _weight_files(path: Path) -> tuple[Path, ...]:
    if (path / WEIGHTS).is_file():
        return (path / WEIGHTS,)
    if (path / INDEX).is_file():
        shards = _read_object(path / INDEX).get("weight_map")
        names = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
        if not names or any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise ModelError(f"{INDEX} names no safetensors of this folder", given=", ".join(names[:_NAMED]) or path)
        lost = [name for name in names if not (path / name).is_file()]
        if lost:
            raise ModelError("weight files are missing", given=", ".join(lost[:_NAMED]), hint="fetch the model again")
        return tuple(path / name for name in names)
    pickled = sorted(file.name for pattern in _PICKLED for file in path.glob(pattern))
    if pickled:
        hint = "convert it where it is trusted: from_pretrained(DIR).save_pretrained(DIR) of transformers"
        raise ModelError(
            "pickled weights can run code and are not opened", given=pickled[0], expected=WEIGHTS, hint=hint
        )
    raise ModelError("this folder has no weights", given=path, expected=f"{WEIGHTS} or {INDEX}")


def _check_dtypes(file: Path) -> None:
    """Refuses tensors that the library would cast without a word: whole numbers, or eight bits without their scales."""
    try:
        with safe_open(file, "pt") as tensors:
            kinds = {name: tensors.get_slice(name).get_dtype() for name in list(tensors.keys())}
    except Exception as error:  # the library has one class of errors for all that a file can be
        raise ModelError(
            f"a weight file cannot be read: {_line(error)}", given=file, hint="fetch the model again"
        ) from error
    wrong = {name: kind for name, kind in kinds.items() if kind not in _DTYPES}
    if wrong:
        name = min(wrong)
        raise ModelError(
            f"{len(wrong)} tensors are of a type that is no weight",
            given=f"{name}: {wrong[name]}",
            expected=", ".join(_DTYPES),
        )


def _read_object(path: Path) -> dict[str, Json]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} cannot be read: {_line(error)}", given=path) from error
    if not isinstance(values, dict):
        raise ModelError(f"{path.name} is no JSON object", given=path)
    return values


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's bars and remarks: what matters of them is an error here."""
    library_logging.set_verbosity_error()
    shown = library_logging.is_progress_bar_enabled()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            library_logging.enable_progress_bar()


def _line(error: BaseException) -> str:
    said = " ".join(str(error).split())[:300]
    return said if len(said.split()) > 1 else f"{type(error).__name__} {said}".strip()
