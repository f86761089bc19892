"""Who, what, when, where, how-many questions made from a sentence by rules on the type of the blanked answer.

Rules, not grammar: the aim is questions that share only part of their words with the evidence, in the shapes people
ask in. Some come out clumsy, which harms less than asking always alike.
"""

import random
import re
from typing import NamedTuple

from precog.train.data.spans import SpanType
from precog.train.data.verbs import base_form, is_verb
from precog.train.data.vocabulary import (
    AUXILIARIES,
    CLAUSE_OPENERS,
    DETERMINERS,
    FIRST_HEADS,
    FUNCTION_WORDS,
    HEADS,
    IRREGULAR,
    PREPOSITIONS,
    PRESENT,
    PRONOUNS,
    SYNONYMS,
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
    SpanType.PLACE: ("where", "where", "what place", "which place", "what location", "which country", "what city"),
    SpanType.NAME: ("what", "what", "what", "what", "who"),
    SpanType.DATE: ("when", "when", "on what date", "what date", "what day"),
    SpanType.YEAR: ("when", "in what year", "in which year", "what year", "which year"),
    SpanType.NUMBER: ("how many", "how many", "what number of"),
    SpanType.MEASURE: ("how long", "how far", "how large", "how much", "what distance", "how big"),
    SpanType.MONEY: ("how much", "how much money", "what amount", "what sum of money"),
    SpanType.PERCENT: ("what percentage", "what percent", "how much", "what proportion"),
    SpanType.QUOTE: ("what", "what title", "what phrase", "what term", "what name"),
    SpanType.PHRASE: ("what",),
    SpanType.REASON: ("why", "for what reason"),
}
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
    left = _left(_PARENTHESES.sub("", sentence[:start]).replace("(", ""), title, rng)
    right = _right(_PARENTHESES.sub("", sentence[stop:]).replace(")", ","), rng)
    front = rng.choice(_FRONTS[kind])
    if kind is SpanType.REASON and left:
        left = (
            [w for w in left[:-1] if w not in ("because", "due")] if left[-1] in ("because", "due", "order") else left
        )
    if left and left[-1] in DETERMINERS:
        left.pop()
    if kind is SpanType.NAME:
        front = _named(sentence[start:stop], left, front)
    elif kind is SpanType.PHRASE:
        words = sentence[start:stop].split(" ")
        if len(words) in (2, 3) and rng.random() < 0.25 and not FUNCTION_WORDS & set(words):
            front = f"what {rng.choice(('kind', 'type', 'sort'))} of {words[-1]}"
            stop -= len(words[-1]) + 1
    elif kind is SpanType.NUMBER:
        noun = re.match(r" ([a-z][a-z-]+)( [a-z]{3,})?", right)
        if noun is None or noun[1] in FUNCTION_WORDS:
            front = "what number"
        else:
            second = noun[2] if noun[2] and noun[2].strip() not in FUNCTION_WORDS and not noun[2].endswith("ed") else ""
            front, right = f"{front} {noun[1]}{second}", right[len(noun[1]) + 1 + len(second) :]
    question = _ordered(left, right, front, kind, rng)
    words = question.split()
    if len(words) < 4 or len(words) > 30 or not any(is_verb(w) for w in words) or _num_content(words, front) < 2:
        return None
    question = " ".join(_varied(words, front.split(), rng))
    question = question[0].upper() + question[1:]
    question = question.replace(" ,", ",").replace(" .", ".").replace(" '", "'").replace(",,", ",")
    return WhQuestion(question.rstrip(" .,;:—–-") + ("?" if rng.random() < 0.96 else ""), start, stop)


def _left(text: str, title: str, rng: random.Random) -> list[str]:
    """Words before the answer: the last clause, a leading pronoun replaced by the title."""
    for separator, chance in (("; ", 1.0), (": ", 1.0), (", ", 0.55)):
        head, found, tail = text.rpartition(separator)
        if found and rng.random() < chance and (len(tail.split()) >= 3 or len(head.split()) < 4):
            text = tail
    words = text.replace('"', "").replace("“", "").replace("”", "").split()
    if words and words[0].lower() in CLAUSE_OPENERS:
        words = words[1:]
    if words and title and words[0] in PRONOUNS and rng.random() < 0.7:
        words[0] = title
    elif words and words[0].lower() in FUNCTION_WORDS:
        words[0] = words[0].lower()
    return words[-22:]


def _right(text: str, rng: random.Random) -> str:
    text = text.replace('"', "").replace("“", "").replace("”", "").rstrip(" .!?")
    text = f" {text}" if text[:1] == "," else text
    if text[:2] in ("'s", "’s"):
        text = text[2:] if rng.random() < 0.5 else text
    if rng.random() < 0.85:
        cut = _RIGHT_CUT.search(text, 2)
        if cut:
            text = text[: cut.start()]
    return " ".join(["", *text.split()[:14]])


def _named(answer: str, left: list[str], front: str) -> str:
    """Ask a name by its own head noun or by the noun that stands before it ("the novelist …")."""
    words = answer.split(" ")
    if words[-1] in HEADS and len(words) > 1:
        return f"which {words[-1].lower()}"
    if words[0] in FIRST_HEADS and len(words) > 1:
        return f"what {words[0].lower()}"
    if left and left[-1].islower() and left[-1] not in FUNCTION_WORDS and not left[-1].endswith(("ed", "ing", "ly")):
        if left[-1] in IRREGULAR or left[-1] in PRESENT or len(left) < 3 or left[-2] not in FUNCTION_WORDS:
            return front
        noun = left.pop()
        if left and left[-1] in DETERMINERS:
            left.pop()
        return f"which {noun}"
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
        if verb[1] in ("and", "or", "who", "which", "that"):
            return ""
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
    front = "whom" if front == "who" and preposition and rng.random() < 0.5 else front
    return f"{' '.join(left)} {front} {right}"


def _inverted(left: list[str], right: str, front: str, preposition: str, kind: SpanType, rng: random.Random) -> str:
    for index, word in enumerate(left[1:10], start=1):
        if word in _HAVE and (index == len(left) - 1 or left[index + 1] in DETERMINERS):
            auxiliary, rest = _HAVE[word], ["have", *left[index + 1 :]]
        elif word in AUXILIARIES:
            auxiliary, rest = word, left[index + 1 :]
        elif word in IRREGULAR or (len(word) > 4 and word.endswith("ed") and left[index - 1] not in DETERMINERS):
            auxiliary, rest = "did", [base_form(word), *left[index + 1 :]]
        elif word in PRESENT:
            auxiliary, rest = "does", [PRESENT[word], *left[index + 1 :]]
        else:
            continue
        subject = left[:index]
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


def _num_content(words: list[str], front: str) -> int:
    asked = front.split()
    if asked[0] in ("how", "which"):  # its noun says what is asked for
        asked = asked[:2]
    return sum(w.lower() not in FUNCTION_WORDS and w not in asked for w in words)


def _varied(words: list[str], front: list[str], rng: random.Random) -> list[str]:
    """Some words dropped or replaced, so that the question is no copy of its evidence."""
    drop = rng.choice((0.0, 0.0, 0.0, 0.08, 0.16))
    swap = rng.choice((0.0, 0.5, 0.9))
    kept = {*front, "who", "what", "which", "when", "where", "why", "how", "many", "much"}
    room = len(words) - 5
    out = []
    for word in words:
        dispensable = word.islower() and word not in FUNCTION_WORDS and word not in kept
        if room > 0 and dispensable and rng.random() < (0.8 if word.endswith("ly") else drop):
            room -= 1
            continue
        synonym = SYNONYMS.get(word)
        out.append(synonym if synonym and word not in kept and rng.random() < swap else word)
    return out
