"""Text of others as it is written: what would steer a terminal is shown instead."""

import json
import unicodedata

_LINE_ENDS = "\u2028\u2029"  # beside control characters: where readers of lines, unlike JSON, see an end
_TURNS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")


def visible(text: str) -> str:
    """A text of others with its control characters as pictures or numbers, so that it cannot steer a terminal.

    Line feeds and tabs stay. Characters that turn the direction of writing are shown by number, too.
    """
    return "".join(char if char in "\n\t" or not _steers(char) else _picture(char) for char in text)


def json_line(value: object) -> str:
    """JSON on one line, whoever reads lines: such characters and all that may end a line are escaped, as JSON allows.

    Raises:
        ValueError: a number is not finite.
    """
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return "".join(f"\\u{ord(char):04x}" if _steers(char) or char in _LINE_ENDS else char for char in line)


def _steers(char: str) -> bool:
    if char.isprintable():
        return False
    return unicodedata.category(char) in ("Cc", "Cs") or unicodedata.bidirectional(char) in _TURNS


def _picture(char: str) -> str:
    if char < " ":
        return chr(0x2400 + ord(char))
    return "\u2421" if char == "\x7f" else f"\\u{ord(char):04x}"
