"""What a resumed run shares with the one it goes on with, and how a person is told where it does not."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precog.errors import TrainingError
from precog.state import titled

__all__ = ["CALLED", "check_identity"]

CALLED = "called"
"""Where a checkpoint's record says what people call its data; another name alone makes no other run."""
FINGERPRINT = re.compile(r'"([0-9a-f]{12})[0-9a-f]{52}"')


def check_identity(
    folder: Path, record: Mapping[str, Any], mine: Mapping[str, Any], called: Mapping[str, str] | None = None
) -> None:
    """Whether a checkpoint was written by the same run; data come first, because settings may follow from them.

    Args:
        folder: of the run.
        record: of the checkpoint.
        mine: what must be the same, by part; plain data.
        called: what people call some of these parts.

    Raises:
        TrainingError: a part is another.
    """
    names, theirs = dict(called or {}), record.get(CALLED)
    theirs = theirs if isinstance(theirs, dict) else {}
    for part in sorted(mine, key=lambda part: part != "data"):
        found = record.get(part)
        if found == mine[part]:
            continue
        if part == "data":
            raise TrainingError(
                f"{folder} holds a run on other data",
                given=names.get(part) or _difference(mine[part], found),
                expected=theirs.get(part) or _difference(found, mine[part]),
                hint="choose another --out folder, or remove this one to begin anew",
            )
        raise TrainingError(
            f"the run to resume has another {part}",
            given=_difference(mine[part], found, names.get(part, "")),
            expected=_difference(found, mine[part], theirs.get(part, "")),
            hint="pass the same options, or choose another --out folder",
        )


def _difference(mine: Any, other: Any, name: str = "") -> str:
    """What one value has that another has not, as JSON; fingerprints in short, one of its own with its name."""
    if isinstance(mine, str) and FINGERPRINT.fullmatch(f'"{mine}"'):
        return titled(name, mine)
    if isinstance(mine, dict) and isinstance(other, dict):
        mine = {key: value for key, value in mine.items() if key not in other or other[key] != value}
    return FINGERPRINT.sub(r'"\1"', json.dumps(mine, sort_keys=True, default=str))
