"""Who, what, when, where, how-many questions made from a sentence by rules on the type of the blanked answer.

Rules, not grammar: the aim is questions that share only part of their words with the evidence, in the shapes people
ask in. Some come out clumsy, which harms less than asking always alike.
"""

import random
import re
from itertools import pairwise
from typing import NamedTuple

from precog.questions.spans import SpanType
from precog.questions.verbs import base_form, is_verb
from precog.questions.vocabulary import (
    AUXILIARIES,
    CLAUSE_OPENERS,
    COUNTRIES,
    DETERMINERS,
    FIRST_HEADS,
    FUNCTION_WORDS,
    HEADS,
    IRREGULAR,
    PREPOSITIONS,
    PRESENT,
    PRONOUNS,
    STATES,
    TOWNS,
    words,
)

__all__ = ["WhQuestion", "make_wh"]


class WhQuestion(NamedTuple):
    """A question and the characters of the sentence that answer it (a noun phrase may be narrowed)."""

    question: str
    start: int
    stop: int


_SUBJECT_VERB = re.compile(r"^ (?:also |then |later |first |officially |originally )?([a-z]+)\b")
_PARENTHESES = re.compile(r"\s*\([^()]*\)|\s*\[[^\]]*\]")
_RIGHT_CUT = re.compile(
    r"[,;:—–]| (?=(?:and|but|which|who|while|whereas|although|where|when|as well|because|after which|so that) )"
)
_FRONTS: dict[SpanType, tuple[str, ...]] = {
    SpanType.PERSON: ("who", "who", "who", "which person", "what is the name of the person who", "what person"),
    SpanType.PLACE: ("where", "where", "what place", "which place", "what location"),
    SpanType.NAME: ("what",),
    SpanType.DATE: ("when", "when", "on what date", "what date", "what day"),
    SpanType.YEAR: ("when", "in what year", "in which year", "what year", "which year"),
    SpanType.NUMBER: ("how many", "how many", "what number of"),
    SpanType.MEASURE: ("how much",),
    SpanType.MONEY: ("how much", "how much money", "what amount", "what sum of money"),
    SpanType.PERCENT: ("what percentage", "what percent", "how much", "what proportion"),
    SpanType.QUOTE: ("what", "what title", "what phrase", "what term", "what name"),
    SpanType.PHRASE: ("what",),
    SpanType.REASON: ("why", "for what reason"),
}
_CLAUSES = frozenset(words("which who whom whose that whether because until unless since"))
_SUBJECTS = frozenset(word.lower() for word in PRONOUNS)
_NO_SUBJECT = frozenset(
    words("which who that whom whose but not nor when where while whilst although though if because to than")
)
_AFTER = frozenset(words("after before because over among against within across around every along when where"))
_BREAKS = frozenset(words("but while whilst whereas although though"))
_WHICH = ("which", "which", "what")
_HAVE = {"has": "does", "have": "do", "had": "did"}
_TIMED = (SpanType.DATE, SpanType.YEAR, SpanType.PLACE, SpanType.REASON)


def make_wh(sentence: str, start: int, stop: int, kind: SpanType, title: str, rng: random.Random) -> WhQuestion | None:
    """A question for ``sentence[start:stop]``, or None if the sentence leaves nothing to ask by.

    Args:
        sentence: one sentence of the passage.
        start: first character of the answer in it.
        stop: character after the answer.
        kind: type of the answer.
        title: what the document is about; stands in for a leading pronoun. May be empty.
        rng: source of every choice.
    """
    if not _askable(sentence, start, stop, kind):
        return None
    left = _left(_PARENTHESES.sub("", sentence[:start]).replace("(", ""), title, rng)
    if left is None:
        return None
    right = _right(_PARENTHESES.sub("", sentence[stop:]).replace(")", ","), rng)
    front = rng.choice(_fronts(sentence[start:stop], kind, right))
    if kind is SpanType.MEASURE and front.split(" ")[-1] in _DIMENSIONS:
        right = _DIMENSION.sub("", right)
    if kind is SpanType.REASON and left:
        left = (
            [w for w in left[:-1] if w not in ("because", "due")] if left[-1] in ("because", "due", "order") else left
        )
    if left and left[-1] in DETERMINERS:
        left.pop()
    noun = re.match(r" ([a-z]{3,})(?=[ ,.;]|$)", right)
    if kind in (SpanType.NAME, SpanType.PLACE) and noun is not None and noun[1] not in FUNCTION_WORDS:
        if not (is_verb(noun[1]) or noun[1] in PRESENT or noun[1].endswith(("ly", "ing"))):
            if not _ends(right[noun.end() :] or "."):
                return None
            front, right = f"{rng.choice(_WHICH)} {noun[1]}", right[noun.end() :]  # a name that describes a noun
    elif kind is SpanType.NAME:
        front = _named(sentence[start:stop], left, front, rng)
    elif kind is SpanType.PHRASE:
        words = sentence[start:stop].split(" ")
        if len(words) in (2, 3) and rng.random() < 0.25 and not FUNCTION_WORDS & set(words) and _ends(sentence[stop:]):
            front = f"what {rng.choice(('kind', 'type', 'sort'))} of {words[-1]}"
            stop -= len(words[-1]) + 1
    elif kind is SpanType.NUMBER:
        noun = re.match(r" ([a-z][a-z-]+)( [a-z]{3,})?", right)
        if noun is None or noun[1] in FUNCTION_WORDS:
            return None
        else:
            second = noun[2] if noun[2] and noun[2].strip() not in FUNCTION_WORDS and not noun[2].endswith("ed") else ""
            second = "" if _is_plural(noun[1]) else second
            if not _is_plural((second or noun[1]).strip()):
                return None
            front, right = f"{front} {noun[1]}{second}", right[len(noun[1]) + 1 + len(second) :]
    question = _ordered(left, right, front, kind, rng)
    words = question.split()
    if len(words) < 4 or len(words) > 30 or not any(is_verb(w) for w in words) or _num_content(words, front) < 2:
        return None
    question = " ".join(_varied(words, front.split(), rng))
    question = question[0].upper() + question[1:]
    question = question.replace(" ,", ",").replace(" .", ".").replace(" '", "'").replace(",,", ",")
    return WhQuestion(question.rstrip(" .,;:—–-") + ("?" if rng.random() < 0.96 else ""), start, stop)


_TIME_PREPOSITIONS = frozenset(
    words("in on since from until till by around about during before after between for of at to")
)
_NO_PLURAL = frozenset(words("people men women children percent police cattle fish sheep"))


def _is_plural(noun: str) -> bool:
    return noun in _NO_PLURAL or (noun.endswith("s") and not noun.endswith(("ss", "us", "is")))


def _ends(rest: str) -> bool:
    """Whether a noun phrase is over where ``rest`` begins."""
    word = re.match(r" ([a-z]+)", rest)
    return rest[:1] in ".,;:)" or (word is not None and (word[1] in FUNCTION_WORDS or is_verb(word[1])))


def _askable(sentence: str, start: int, stop: int, kind: SpanType) -> bool:
    """No member of a list, no date that stands before a noun."""
    words, after = sentence[:start].lower().split()[-2:], sentence[stop : stop + 5]
    if words and words[-1] in DETERMINERS and kind not in (SpanType.DATE, SpanType.YEAR):
        words.pop()
    word = words[-1] if words else ""
    if (after[:1] in ".!?" and sentence[stop + 1 :].strip("\"”’)' ")) or (word == "from" and after.startswith(" to ")):
        return False  # the sentence was cut at an abbreviation; the end of a range
    if kind in (SpanType.DATE, SpanType.YEAR):
        return not word or word in _TIME_PREPOSITIONS
    if word in ("and", "or", "but", "nor", "not", "than", "&") or (
        word.endswith((",", ";")) and kind is not SpanType.REASON
    ):
        return False
    return kind is SpanType.REASON or not after.startswith((" and ", " or ", ", and", " & ", "-", "’", "'"))


_DIMENSIONS = frozenset(words("tall high long wide deep thick old large"))
_DIMENSION = re.compile(r"^ (tall|high|long|wide|deep|thick|old)\b")
_UNITS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"square|km2|km²|acre|hectare|\bha$"), ("how large", "what area", "how much land")),
    (re.compile(r"second|minute|hour|day|week|month|year|decade|centur"), ("how long", "what length of time")),
    (re.compile(r"°|degree"), ("what temperature", "how many degrees")),
    (re.compile(r"/h|mph"), ("how fast", "what speed")),
    (re.compile(r"kg|gram|ton|pounds|lbs?$| g$"), ("how much", "what weight")),
    (
        re.compile(r"met(?:er|re)|km|mile|feet|foot|ft$|inch|[cm]m$| m$|mi$"),
        ("how far", "what distance", "what length"),
    ),
)


def _fronts(answer: str, kind: SpanType, right: str) -> tuple[str, ...]:
    """The question words that fit an answer: a city is asked for by "which city", a weight by "how much"."""
    if kind is SpanType.PLACE:
        last = answer.rsplit(" ", 1)[-1]
        for known, nouns in ((COUNTRIES, ("country", "nation")), (TOWNS, ("city", "town")), (STATES, ("state",))):
            if last in known:
                return ("where", *(f"{word} {noun}" for noun in nouns for word in ("what", "which")))
    if kind is SpanType.MEASURE:
        dimension = _DIMENSION.match(right)
        if dimension is not None:
            return (f"how {dimension[1]}",)
        for unit, fronts in _UNITS:
            if unit.search(answer):
                return fronts
    return _FRONTS[kind]


def _left(text: str, subject: str, rng: random.Random) -> list[str] | None:
    """Words before the answer: the last clause that has a subject of its own, a leading pronoun replaced."""
    for separator, chance in (("; ", 1.0), (": ", 1.0), (", ", 0.7)):
        _, found, tail = text.rpartition(separator)
        if found and rng.random() < chance and _is_clause(tail.split()):
            text = tail
    words = text.replace('"', "").replace("“", "").replace("”", "").split()
    while words and words[0].lower() in CLAUSE_OPENERS:
        words = words[1:]
    if words and subject and words[0] in PRONOUNS:
        words[:1] = subject.split()
    elif words and words[0].lower() in FUNCTION_WORDS:
        words[0] = words[0].lower()
    if words and (is_verb(words[0]) or words[0] in PRESENT or words[-1] in ("and", "or", "but")):
        return None
    if not _BREAKS.isdisjoint(words):
        return None
    return words if len(words) <= 22 else None


def _is_clause(words: list[str]) -> bool:
    """Whether some words begin with a subject and a verb."""
    if words and words[0].lower() in CLAUSE_OPENERS:
        words = words[1:]
    if len(words) < 3 or not (
        words[0].lower() in DETERMINERS or words[0].lower() in _SUBJECTS or words[0][0].isupper()
    ):
        return False
    return any(is_verb(word) or word in PRESENT for word in words[1:6])


def _right(text: str, rng: random.Random) -> str:
    text = text.replace('"', "").replace("“", "").replace("”", "").rstrip(" .!?")
    text = f" {text}" if text[:1] == "," else text
    if text[:2] in ("'s", "’s"):
        text = text[2:] if rng.random() < 0.5 else text
    if rng.random() < 0.95:
        cut = _RIGHT_CUT.search(text, 2)
        if cut:
            text = text[: cut.start()]
    found = text.split()[:14]
    while len(text.split()) > 14 and found and (found[-1] in FUNCTION_WORDS or found[-1][0] in "(“"):
        found.pop()  # cut within a phrase
    return " ".join(["", *found])


def _named(answer: str, left: list[str], front: str, rng: random.Random) -> str:
    """Ask a name by its own head noun or by the noun that stands before it ("the novelist …")."""
    words = answer.split(" ")
    if words[-1] in HEADS and len(words) > 1:
        return f"{rng.choice(_WHICH)} {words[-1].lower()}"
    if words[0] in FIRST_HEADS and len(words) > 1:
        return f"{rng.choice(_WHICH)} {words[0].lower()}"
    if (
        left
        and left[-1].islower()
        and left[-1].isalpha()
        and left[-1] not in FUNCTION_WORDS
        and not left[-1].endswith(("ed", "ing", "ly"))
    ):
        if left[-1] in IRREGULAR or left[-1] in PRESENT or len(left) < 3 or left[-2] not in FUNCTION_WORDS:
            return front
        noun = left.pop()
        if left and left[-1] in DETERMINERS:
            left.pop()
        return f"{rng.choice(_WHICH)} {noun}"
    return front


def _ordered(left: list[str], right: str, front: str, kind: SpanType, rng: random.Random) -> str:
    """Subject question, inverted question, or the question word where the answer stood."""
    verb = _SUBJECT_VERB.match(right)
    if right.startswith(" ,") and len(left) <= 2:
        clause = right[2:].split()
        if clause[:1] and clause[0].lower() in FUNCTION_WORDS:
            clause[0] = clause[0].lower()
        return _inverted(clause, "", front, "", kind, rng) or f"{' '.join(clause)} {front}"
    preposition = left[-1] if left and left[-1] in PREPOSITIONS else ""
    if len(left) <= 1 and not preposition and verb:
        if not (is_verb(verb[1]) or verb[1] in PRESENT):
            return ""
        noun = front.split(" ")[1:]
        if kind is SpanType.NAME and len(noun) == 1 and rng.random() < 0.3:
            return f"what is the name of the {noun[0]} that {right}"
        return f"{front} {right}"
    if front.startswith("what is the name of"):
        front = "who"
    if rng.random() < 0.72:
        inverted = _inverted(left, right, front, preposition, kind, rng)
        if inverted:
            return inverted
    if preposition and (front.split()[0] in ("in", "on", "for") or front in ("when", "where", "why")):
        if rng.random() < 0.6:
            left = left[:-1]
        else:
            front = {"when": "what year", "where": "what place", "why": "what reason"}.get(
                front, front.split(" ", 1)[-1]
            )
    if (right.strip() and right.split()[0] not in PREPOSITIONS | _AFTER) or not _has_main_verb(left):
        return ""  # the question word in the midst of a sentence: nobody asks so
    front = "whom" if front == "who" and preposition and rng.random() < 0.5 else front
    return f"{' '.join(left)} {front} {right}"


def _inverted(left: list[str], right: str, front: str, preposition: str, kind: SpanType, rng: random.Random) -> str:
    for index, word in enumerate(left[1:10], start=1):
        if word in _HAVE and (index == len(left) - 1 or left[index + 1] in DETERMINERS):
            auxiliary, rest = _HAVE[word], ["have", *left[index + 1 :]]
        elif word in AUXILIARIES:
            auxiliary, rest = word, left[index + 1 :]
        elif _is_past(word, left, index):
            auxiliary, rest = "did", [base_form(word), *left[index + 1 :]]
        elif word in PRESENT:
            auxiliary, rest = "does", [PRESENT[word], *left[index + 1 :]]
        else:
            continue
        subject = left[:index]
        if not _is_subject(subject) or not _is_simple(rest):
            return ""
        if preposition and rest:
            fronted = front.split()[0] in ("in", "on", "for", "when", "where", "why")
            if fronted:
                rest = rest[:-1]
            elif rng.random() < 0.5:
                front, rest = f"{preposition} {front}", rest[:-1]
        if not rest and not right.strip() and kind in _TIMED:
            return ""
        return f"{front} {auxiliary} {' '.join(subject)} {' '.join(rest)} {right}"
    return ""


def _is_past(word: str, left: list[str], index: int) -> bool:
    """Whether a word in "-ed" is a clause's verb, not a participle beside a noun."""
    if word not in IRREGULAR and (len(word) < 4 or not word.endswith("ed") or "-" in word):
        return False
    previous = left[index - 1].lower()
    if previous in FUNCTION_WORDS and previous not in _SUBJECTS:
        return False
    return not any(w in AUXILIARIES or w in PRESENT for w in left[index + 1 :])


def _is_simple(rest: list[str]) -> bool:
    """Whether what stands between the verb and the answer opens no clause and no list."""
    return not any(w in _CLAUSES or w.endswith((",", ";", ":")) for w in rest[:-1]) and (
        not rest or rest[-1] not in _CLAUSES
    )


def _has_main_verb(words: list[str]) -> bool:
    """Whether some words hold a finite verb that is not a relative clause's."""
    return any(
        (is_verb(word) or word in PRESENT) and before not in ("who", "which", "that")
        for before, word in pairwise(words)
    )


def _is_subject(words: list[str]) -> bool:
    """Whether some words may be a subject: no verb, no clause, no preposition in front, no comma."""
    if words[0].lower() in PREPOSITIONS or words[0].lower() in CLAUSE_OPENERS:
        return False
    return not any(
        w.lower() in _NO_SUBJECT or w in AUXILIARIES or w in PRESENT or w.endswith((",", ";", ":")) for w in words
    )


def _num_content(words: list[str], front: str) -> int:
    asked = front.split()
    if asked[0] in ("how", "which"):  # its noun says what is asked for
        asked = asked[:2]
    return sum(w.lower() not in FUNCTION_WORDS and w not in asked for w in words)


def _varied(words: list[str], front: list[str], rng: random.Random) -> list[str]:
    """Adverbs and, now and then, another word dropped, so that the question is no copy of its evidence."""
    drop = rng.choice((0.0, 0.0, 0.0, 0.08))
    kept = {*front, "who", "what", "which", "when", "where", "why", "how", "many", "much"}
    room = len(words) - 5
    out = []
    for word in words:
        dispensable = word.islower() and word not in FUNCTION_WORDS and word not in kept
        if room > 0 and dispensable and rng.random() < (0.8 if word.endswith("ly") else drop):
            room -= 1
            continue
        out.append(word)
    return out
