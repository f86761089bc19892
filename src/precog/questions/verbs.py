"""English verbs by spelling: base, past, third-person forms and participles; auxiliaries."""

import re

from precog.questions.vocabulary import AUXILIARIES, IRREGULAR, PRESENT, words

__all__ = ["base_form", "is_verb", "participle", "past_form", "present_form"]

_SILENT_E = re.compile(
    r"(?:v|z|c|u|[aeiour]s|[aeiou]g|dg|rg|ang|(?:[^eo]|cre)at|[bcdfgkptz]l|[^ao]ul|[^ao]il|(?:^|[^aeiou]|qu)ir|[^o]ur|[^aeo]in|[cnv]it|"
    r"[^o]ut|[^ao]id|[^o]ud|[^eo]ad|[^e]ar|(?:gn|pl|sc|st)or|[^eo]am|[^a]im|um|[^eo][aeiou]k)$"
)
"""Stems of past tenses whose base form ends in a silent e."""
_PAST = {base: past for past, base in reversed(IRREGULAR.items())} | dict(
    pair.split(":")
    for pair in words(
        "slay:slew flee:fled seek:sought feed:fed breed:bred split:split overcome:overcame sell:sold tear:tore be:was "
        "shut:shut cost:cost overthrow:overthrew beat:beat shoot:shot eat:ate forbid:forbade forecast:forecast "
        "come:came go:went hold:held"
    )
)
_PARTICIPLES = dict(
    pair.split(":")
    for pair in words(
        "take:taken begin:begun write:written give:given choose:chosen fall:fallen rise:risen grow:grown see:seen "
        "go:gone become:become come:come overcome:overcome speak:spoken break:broken drive:driven beat:beaten "
        "draw:drawn know:known throw:thrown slay:slain sing:sung run:run show:shown fly:flown swear:sworn eat:eaten "
        "forbid:forbidden wear:worn tear:torn be:been"
    )
)
_DOUBLED = re.compile(r"^(?:[^aeiou]*[aeiou][bdgklmnprt]|inter|occur|permit|commit|emit|control|refer|equip)$")


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


def past_form(verb: str) -> str:
    """The past tense of a base form, by spelling rules."""
    if verb in _PAST:
        return _PAST[verb]
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}{verb[-1] if _DOUBLED.match(verb) else ''}ed"


def participle(verb: str) -> str:
    """The past participle of a base form."""
    return _PARTICIPLES.get(verb) or past_form(verb)


def present_form(verb: str) -> str:
    """The third person of a base form."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}{'es' if verb.endswith(('s', 'x', 'ch', 'sh', 'o')) else 's'}"


def is_verb(word: str) -> bool:
    """Whether a word looks like a finite verb."""
    return word in AUXILIARIES or word in IRREGULAR or word in PRESENT or word.endswith("ed")
