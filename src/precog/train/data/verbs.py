"""English verbs by spelling: base forms of past and third-person forms, auxiliaries."""

import re

from precog.train.data.vocabulary import AUXILIARIES, IRREGULAR, PRESENT

__all__ = ["base_form", "is_verb"]

_SILENT_E = re.compile(
    r"(?:v|z|c|u|[aeiour]s|[aeiou]g|dg|rg|ang|(?:[^eo]|cre)at|[bcdfgkptz]l|[^ao]ul|[^ao]il|(?:^|[^aeiou]|qu)ir|[^o]ur|[^aeo]in|[cnv]it|"
    r"[^o]ut|[^ao]id|[^o]ud|[^eo]ad|[^e]ar|(?:gn|pl|sc|st)or|[^eo]am|[^a]im|um|[^eo][aeiou]k)$"
)
"""Stems of past tenses whose base form ends in a silent e."""


def base_form(verb: str) -> str:
    """The base form of a past tense, by spelling rules."""
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    stem = verb[:-2]
    if stem.endswith("i"):
        return f"{stem[:-1]}y"
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "sl":
        return stem[:-1]
    if _SILENT_E.search(stem):
        return f"{stem}e"
    return stem


def is_verb(word: str) -> bool:
    """Whether a word looks like a finite verb."""
    return word in AUXILIARIES or word in IRREGULAR or word in PRESENT or word.endswith("ed")
