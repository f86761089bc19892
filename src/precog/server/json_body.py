"""JSON that comes in is looked at before anything is made of it.

What JSON's own parsers let pass, and what then breaks something far away, is refused here: depth, numbers that are
none or that no integer column holds, characters that are half of one, keys that say two things.
"""

import json
import math
import re
from email.message import Message
from typing import NoReturn

from precog.errors import InputError

MAX_DEPTH = 64
_MAX_DIGITS = 19
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def is_json(content_type: str) -> bool:
    """Whether a body of this type is read as JSON, as the framework decides it."""
    message = Message()
    message["content-type"] = content_type
    subtype = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (subtype == "json" or subtype.endswith("+json"))


def check_json(data: bytes) -> None:
    """Looks at a body that is to be read as JSON.

    Raises:
        InputError: it is not JSON in UTF-8, or has something in it that is safe with nobody.
    """
    if not data:
        return
    try:
        text = data.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_bounded,
        )
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise InputError("the body is not UTF-8", given=f"byte {error.start}", expected="JSON in UTF-8") from error
    except UnicodeEncodeError as error:
        hint = "write both halves of the pair, or the character itself"
        raise InputError("a text has half a character in it (a lone surrogate)", hint=hint) from error
    except json.JSONDecodeError as error:
        raise InputError(
            "the body is not JSON", given=f"character {error.pos}: {error.msg}", expected="JSON"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    _check_depth(value)


def _check_depth(value: object) -> None:
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        below = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in below if isinstance(inner, dict | list)]


def _too_deep() -> InputError:
    return InputError("the body is nested too deeply", expected=f"at most {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("an object of the body has the same key twice", expected="each key once")
    return found


def _no_number(name: str) -> NoReturn:
    raise InputError("the body has a number in it that is none", given=name, expected="JSON, which has no such number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InputError("a number of the body is too large", given=text[:40])
    return number


def _bounded(text: str) -> int:
    if len(text) > _MAX_DIGITS + 1 or not -(2**63) <= int(text) < 2**63:
        raise InputError("a number of the body is too large", given=text[:40], expected="a whole number of 64 bits")
    return int(text)
