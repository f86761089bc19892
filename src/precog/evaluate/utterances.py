"""Utterances of recorded missions or shows, from JSON lines: one per line, with where it comes from and who said it."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precog.errors import InputError

__all__ = ["Spoken", "read_spoken"]

_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can spell and nothing can encode


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance.

    Attributes:
        mission: the recording it is of.
        speaker: as the transcript calls them; empty where it does not say.
        text: stripped.
    """

    mission: str
    speaker: str
    text: str


def read_spoken(path: Path) -> list[Spoken]:
    """Every utterance of a file with a text, in its order.

    Args:
        path: JSON lines with ``mission``, ``text`` and perhaps ``speaker``, as the Spacelog transcripts have them; gzip
            allowed.

    Raises:
        InputError: the file is missing, damaged, without utterances, or a line is of another form.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("the transcripts cannot be read", given=f"{path} ({reason})") from error
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError("the transcripts are damaged", given=f"{path} ({error})") from error
    found = [spoken for spoken in _lines(text, path) if spoken.text]
    if not found:
        raise InputError("the transcripts hold no utterance", given=path)
    return found


def _lines(text: str, path: Path) -> Iterator[Spoken]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError("a line of the transcripts is no JSON", given=f"{path}, line {number}") from error
        table = entry if isinstance(entry, dict) else {}
        mission, speaker, said = table.get("mission"), table.get("speaker") or "", table.get("text")
        if not (isinstance(mission, str) and mission and isinstance(speaker, str) and isinstance(said, str)) or (
            _SURROGATE.search(f"{mission}{speaker}{said}")
        ):
            raise InputError(
                "a line of the transcripts is of another form",
                given=f"{path}, line {number}",
                expected='{"mission": …, "speaker": …, "text": …}',
            )
        yield Spoken(mission, speaker, said.strip())
