"""The numbers of a picture as a file beside it: JSON that a person reads, and the picture can be drawn from again.

``{"picture": kind, "format": 1, "axes": {field: {"name", "unit", "scale"}}, "data": the fields of the picture}``
"""

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from precog.errors import InputError, StorageError
from precog.writing import output_target

FORMAT = 1
_MOST_BYTES = 64 << 20


def data_file_of(path: Path) -> Path:
    """Where the numbers of a picture stand.

    Raises:
        StorageError: a file is there that holds no picture's numbers, or it is no place for a file.
    """
    target = path.with_suffix(".json")
    if output_target(target, "data of the picture").exists() and _kind(target) is None:
        raise StorageError(
            "the data of a picture would take the place of another file",
            given=target,
            expected="a name of its own",
            hint="name the picture otherwise",
        )
    return target


def encoded(kind: str, axes: Mapping[str, object], data: object) -> bytes:
    """What is written: the same bytes for the same numbers."""
    whole = {"picture": kind, "format": FORMAT, "axes": _plain(axes), "data": _plain(data)}
    return (json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read(path: Path) -> tuple[str, object]:
    """The kind of picture and its fields, not yet looked at.

    Raises:
        InputError: there is no such file, it is too large, or it holds no picture's numbers.
    """
    found = _object(path)
    if found is None or not isinstance(found.get("picture"), str) or found.get("format") != FORMAT:
        expected = f'{{"picture": …, "format": {FORMAT}, "data": …}}'
        raise InputError("the file holds no picture's numbers", given=path, expected=expected)
    return str(found["picture"]), found.get("data")


def decoded(kind: Any, value: object, where: str = "data") -> Any:
    """A value of a declared type from what JSON holds.

    Args:
        kind: a type, such as a dataclass's, or of one of its fields.
        value: as read.
        where: it stands, for errors.

    Raises:
        InputError: it is of another type, or a field is missing or unknown.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        left = [choice for choice in inner if choice is not type(None)]
        if set(left) <= {float, int}:
            return _checked(isinstance(value, float | int) and not isinstance(value, bool), value, where, "a number")
        return decoded(left[0], value, where)
    if origin is Literal:
        return _checked(value in inner, value, where, " or ".join(map(str, inner)))
    if origin is Sequence:
        items: list[object] = _checked(isinstance(value, list), value, where, "a list")
        return tuple(decoded(inner[0], item, f"{where}[{n}]") for n, item in enumerate(items))
    if origin is Mapping:
        named: dict[str, object] = _checked(isinstance(value, dict), value, where, "an object")
        return {name: decoded(inner[1], item, f"{where}.{name}") for name, item in named.items()}
    if is_dataclass(kind):
        return _fields(kind, value, where)
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return _checked(right, value, where, {str: "a text", int: "a whole number", bool: "true or false"}.get(kind))


def _fields(kind: Any, value: object, where: str) -> Any:
    given: dict[str, object] = _checked(isinstance(value, dict), value, where, "an object")
    declared = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    needed = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
    wrong = [f"unknown {name}" for name in given if name not in known]
    wrong += [f"no {name}" for name in needed if name not in given]
    if wrong:
        raise InputError(
            "the numbers of a picture do not fit it", given=f"{where}: {wrong[0]}", expected=", ".join(known)
        )
    return kind(**{name: decoded(declared[name], item, f"{where}.{name}") for name, item in given.items()})


def _checked(right: bool, value: object, where: str, expected: object) -> Any:
    if not right:
        raise InputError("the numbers of a picture do not fit it", given=f"{where}: {value!r}"[:200], expected=expected)
    return value


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _kind(path: Path) -> str | None:
    found = _object(path)
    kind = None if found is None else found.get("picture")
    return kind if isinstance(kind, str) else None


def _object(path: Path) -> dict[str, object] | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(
            "the numbers of a picture cannot be read", given=f"{path}: {error.strerror or error}"
        ) from error
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
