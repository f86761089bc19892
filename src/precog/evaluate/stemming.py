"""English word stems by Porter's algorithm (M. F. Porter, An algorithm for suffix stripping, 1980).

The original rules, with the two that its author added later (``-bli``, ``-logi``); words of two letters stay.
"""

import re

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def _shape(word: str) -> str:
    """One letter per letter: v for a vowel, c for a consonant; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(part: str) -> int:
    """How many times a vowel is followed by a consonant."""
    return _shape(part).count("vc")


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_cvc(word: str) -> bool:
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _suffix(word: str, suffixes: tuple[str, ...]) -> str | None:
    return max((suffix for suffix in suffixes if word.endswith(suffix)), key=len, default=None)


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    ending = _suffix(word, ("ed", "ing"))
    if ending is None or "v" not in _shape(word[: -len(ending)]):
        return word
    word = word[: -len(ending)]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word) and word[-1] not in "lsz":
        return word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_cvc(word) else word


def _replaced(word: str, table: dict[str, str]) -> str:
    ending = _suffix(word, tuple(table))
    if ending is None or not _measure(word[: -len(ending)]):
        return word
    return word[: -len(ending)] + table[ending]


def _stripped(word: str) -> str:
    ending = _suffix(word, _STEP_4)
    if ending is None:
        return word
    rest = word[: -len(ending)]
    return word if _measure(rest) < 2 or (ending == "ion" and rest[-1] not in "st") else rest


def stem(word: str) -> str:
    """The stem of one word in lower case; a word with other letters than a to z comes back as it is."""
    if len(word) < 3 or not re.fullmatch("[a-z]+", word):
        return word
    word = _past(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _stripped(_replaced(_replaced(word, _STEP_2), _STEP_3))
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_cvc(rest)):
            word = rest
    return word[:-1] if _measure(word) > 1 and word.endswith("ll") else word
