"""Settings that a folder keeps, read back strictly."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TypeVar

from precog.errors import DamagedCorpusError

S = TypeVar("S")


def settings_from(kind: type[S], values: Mapping[str, object], what: str) -> S:
    """A frozen dataclass of plain values from what was stored.

    Args:
        kind: the dataclass.
        values: as JSON gave them.
        what: "corpus" or "memory". Fields whose metadata say ``later`` are missing in folders older than they are.

    Raises:
        DamagedCorpusError: a key is missing, unknown or of another type.
    """
    types = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    later = {field.name for field in fields(kind) if field.metadata.get("later")}  # type: ignore[arg-type]  # a dataclass
    wrong = (set(types) - later) - set(values) | set(values) - set(types) or {
        key for key, value in values.items() if type(value) is not types[key]
    }
    if wrong:
        given, expected = ", ".join(sorted(wrong)), ", ".join(types)
        raise DamagedCorpusError(
            f"the settings of the {what} are not those of a {what}", given=given, expected=expected
        )
    return kind(**values)
