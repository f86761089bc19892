"""What a study compares: a JSON file, every variant of it checked before anything is trained."""

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precog.backbones.tenns.config import TennsConfig
from precog.errors import TrainingError
from precog.train.settings import TrainSettings
from precog.train.study.pairs import LEVELS

__all__ = ["Plan", "Variant", "plan_of", "read_values"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class Variant:
    """A shape of the model, how it is trained on pairs and on prepared data (None: on pairs alone), and how often."""

    name: str
    config: TennsConfig
    recall: TrainSettings
    text: TrainSettings | None
    seeds: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a study compares.

    Attributes:
        variants: in the order of the table.
        pairs: numbers of pairs to train on.
        asked: numbers of pairs to measure.
        data: folder of prepared data, with ``train/`` and ``val/``.
        mixture: shares of the prepared sets.
        held_out: sets of ``val/`` to measure; all of them when empty.
    """

    variants: tuple[Variant, ...]
    pairs: tuple[int, ...] = LEVELS
    asked: tuple[int, ...] = LEVELS
    data: Path | None = None
    mixture: Path | None = None
    held_out: tuple[str, ...] = ()


def _checked(values: object, known: Mapping[str, type], where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise TrainingError(f"the plan's {where} is no object", given=type(values).__name__)
    for key, value in values.items():
        if key not in known:
            raise TrainingError(f"the plan's {where} has an unknown key", given=key, expected=", ".join(sorted(known)))
        if not isinstance(value, known[key]):
            raise TrainingError(f"the plan's {where}.{key} has the wrong type", given=value, expected=known[key])
    return values


def _numbers(values: Mapping[str, Any], key: str, default: tuple[int, ...], least: int) -> tuple[int, ...]:
    numbers = values.get(key, list(default))
    if not numbers or not all(type(number) is int and number >= least for number in numbers):
        raise TrainingError(f"the plan's {key} are out of range", given=numbers, expected=f"whole numbers ≥ {least}")
    return tuple(numbers)


def read_values(path: Path) -> dict[str, Any]:
    """The object in a plan's file.

    Raises:
        TrainingError: the file cannot be read, or holds something else.
    """
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TrainingError("the plan cannot be read", given=f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise TrainingError("the plan is no JSON object", given=f"{path}: {type(values).__name__}")
    return values


def plan_of(values: Mapping[str, Any]) -> Plan:
    """The plan that a file's values say, every variant checked.

    Raises:
        TrainingError: a key is unknown or missing, or a training setting is out of range.
        ModelError: a variant's configuration contradicts itself.
    """
    settings = {"config": dict, "recall": dict, "text": dict}
    lists = {"seeds": list, "pairs": list, "asked": list, "held_out": list}
    plan = _checked(values, {**settings, **lists, "variants": dict, "data": str, "mixture": str}, "file")
    if not plan.get("variants"):
        raise TrainingError("the plan has no variants")
    variants = []
    for name, changes in plan["variants"].items():
        if not _NAME.fullmatch(name):
            raise TrainingError("a variant's name must be the name of a folder", given=name)
        _checked(changes, {**settings, "seeds": list}, f"variant {name}")
        changed = {part: {**plan.get(part, {}), **changes.get(part, {})} for part in settings}
        variants.append(
            Variant(
                name,
                TennsConfig.from_dict(changed["config"]),
                TrainSettings.from_dict(changed["recall"]),
                TrainSettings.from_dict(changed["text"]) if plan.get("data") else None,
                _numbers({**plan, **changes}, "seeds", (0,), 0),
            )
        )
    held_out = plan.get("held_out", [])
    return Plan(
        variants=tuple(variants),
        pairs=tuple(sorted(_numbers(plan, "pairs", LEVELS, 1))),
        asked=tuple(sorted(_numbers(plan, "asked", LEVELS, 1))),
        data=Path(plan["data"]) if plan.get("data") else None,
        mixture=Path(plan["mixture"]) if plan.get("mixture") else None,
        held_out=tuple(str(name) for name in held_out),
    )
