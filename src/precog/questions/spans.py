"""Finding typed answer spans in English prose by rules: names, dates, numbers, quotations, noun phrases.

A rough finder on purpose: it is fast, needs no model, and makes the questions that training reads from. It does not
know grammar; what it calls a noun phrase is a run of words between function words.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from precog.questions.vocabulary import (
    ABBREVIATIONS,
    CALENDAR,
    FIRST_NAMES,
    FUNCTION_WORDS,
    NOT_NOUNS,
    PLACES,
    SENTENCE_OPENERS,
    TITLES,
)

__all__ = ["Span", "SpanType", "find_spans", "split_sentences"]


class SpanType(StrEnum):
    """What an answer is."""

    PERSON = "person"
    PLACE = "place"
    NAME = "name"
    DATE = "date"
    YEAR = "year"
    NUMBER = "number"
    MEASURE = "measure"
    MONEY = "money"
    PERCENT = "percent"
    QUOTE = "quote"
    PHRASE = "phrase"
    REASON = "reason"
    HOUR = "hour"


class Span(NamedTuple):
    """Characters ``start:stop`` of a text and their type."""

    start: int
    stop: int
    type: SpanType


_GIVEN_NAMES = frozenset(FIRST_NAMES)
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_UNIT = (
    r"(?:km2|km²|km/h|km|kilomet(?:er|re)s?|met(?:er|re)s?|cm|mm|m|miles?|mi|feet|foot|ft|inch(?:es)?|acres|hectares|ha|"
    r"square (?:miles|kilomet(?:er|re)s|feet|met(?:er|re)s)|kg|kilograms?|grams?|g|tons?|tonnes?|pounds|lb|lbs|"
    r"seconds|minutes|hours|days|weeks|months|years|decades|centuries|degrees|°[CF]|mph|MW|GW|kW|volts?|watts?|Hz|kHz|MHz|"
    r"lit(?:er|re)s?|gallons|bits?|bytes|KB|MB|GB)"
)
_COUNT = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    r"eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds|thousands|a hundred|a dozen)"
)
_TYPED = re.compile(
    rf"""
  (?P<date>\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?\b|\b\d{{1,2}}(?:st|nd|rd|th)?\s{_MONTH}(?:,?\s\d{{3,4}})?\b
      |\b{_MONTH},?\s(?:of\s)?\d{{4}}\b|\b(?:\d{{1,2}}(?:st|nd|rd|th)|[a-z]+(?:th|teenth))(?:\s|-)centur(?:y|ies)\b)
 |(?P<money>(?:\b(?:US|A|C|HK|NZ))?[$£€¥]\s?\d[\d,]*(?:\.\d+)?(?:\s(?:thousand|million|billion|trillion))?
      |\b\d[\d,]*(?:\.\d+)?(?:\s(?:million|billion))?\s(?:dollars|pounds|euros|francs)\b)
 |(?P<percent>\b\d+(?:\.\d+)?(?:%|\s?per\s?cent\b))
 |(?P<measure>\b\d[\d,]*(?:\.\d+)?(?:\s(?:million|billion))?[\s-]{_UNIT}(?![\w²]))
 |(?P<year>\b(?:1\d|20)\d\d(?:[–-](?:\d\d)?\d\d)?\b(?!,\d)|\b(?:1\d|20)\d0s\b|\b\d{{1,4}}\s(?:BCE?|AD|CE)\b)
 |(?P<number>(?<![\w.,])\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?!\w)|(?<![\w.,])\d+(?:\.\d+)?(?:\s(?:million|billion|thousand))?(?![\w,.]*\d)(?!\w)
      |\b{_COUNT}\b)
 |(?P<quote>(?<![\w.,])["“](?P<inner>\w[^"“”\n]{{1,58}}?[\w!?)])[.,]?["”](?!\w))
 |(?P<name>\b[A-Z][\w’'-]*(?:\.[A-Z])*(?:(?:\s(?:of|the|de|la|von|van|der|du|di|da|del|al|bin|and\sthe)){{0,2}}\s(?:[A-Z]\.\s?)*[A-Z][\w’'-]+)*)
    """,
    re.VERBOSE,
)
_NP = r"(?:[a-z][a-z’'-]+ ){0,2}[a-z][a-z’'-]{2,}"
_PHRASE = re.compile(
    r"\b(?:the|a|an|its|his|her|their|of|by|for|with|into|as|from|through|in|and|or|include|including|called|was|were|"
    r"is|are) "
    rf"(?P<np>{_NP}(?: (?:of|and|in|for) (?:the )?{_NP}|(?: of [A-Z]\w+))?)(?=[\s,.;:)])"
)
_REASON = re.compile(
    r"\b(?:because|in order|due) (?P<reason>(?:of |to )?[^,.;:()]{8,70}?)(?=[,.;:]|(?: and | which | but | that ))"
)
_SENTENCE_END = re.compile(r"[.!?][\"”'’)\]]*\s+(?=[\"“'‘(\[]?[A-Z0-9])")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Character spans of the sentences of one paragraph, in order, without the white space between them."""
    spans, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        word = text[start : match.start()].rsplit(None, 1)[-1:]
        last = word[0].lstrip('("“') if word else ""
        if match[0][0] == "." and (last in ABBREVIATIONS or (len(last) == 1 and last.isalpha())):
            continue
        stop = match.start() + len(match[0].rstrip())
        spans.append((start, stop))
        start = match.end()
    if start < len(text):
        spans.append((start, len(text.rstrip())))
    return spans


def find_spans(sentence: str) -> list[Span]:
    """Typed spans of one sentence, sorted; typed ones never overlap, phrases keep clear of them."""
    spans = list(_typed(sentence))
    taken = [(s.start, s.stop) for s in spans]
    for match in _PHRASE.finditer(sentence):
        span = _phrase(match)
        if span is not None and all(span.stop <= a or span.start >= b for a, b in taken):
            spans.append(span)
    spans += [Span(m.start("reason"), m.end("reason"), SpanType.REASON) for m in _REASON.finditer(sentence)]
    spans.sort()
    return spans


def _typed(sentence: str) -> Iterator[Span]:
    for match in _TYPED.finditer(sentence):
        group = match.lastgroup or ""
        start, stop = match.span()
        if match["quote"] is not None:
            start, stop = match.span("inner")
            yield Span(start, stop, SpanType.QUOTE)
        elif match["name"] is not None:
            span = _name(sentence, start, stop)
            if span is not None:
                yield span
        else:
            yield Span(start, stop, SpanType(group))


def _name(sentence: str, start: int, stop: int) -> Span | None:
    text = sentence[start:stop]
    for ending in ("'s", "’s", "'", "’", "-"):
        if text.endswith(ending):
            text = text[: -len(ending)]
            break
    words = text.split(" ")
    while words and words[0] in SENTENCE_OPENERS:
        start += len(words[0]) + 1
        words = words[1:]
    while words and words[0] in ("of", "the", "de", "and"):
        start += len(words[0]) + 1
        words = words[1:]
    if not words or len(words[0]) < 2 or words[0] in CALENDAR:
        return None
    stop = start + len(" ".join(words))
    if start == 0 and len(words) == 1:
        follower = sentence[stop:].split(" ", 2)[1:2]
        if words[0].endswith(("ly", "ing", "ed")) or not follower or follower[0] not in FUNCTION_WORDS:
            return None
        if words[0].endswith("s") and follower[0] in ("are", "were", "have", "can", "may"):
            return Span(start, stop, SpanType.PHRASE)
    before = sentence[:start].rstrip().rsplit(" ", 1)[-1].rstrip(".")
    if words[0] in _GIVEN_NAMES and len(words) > 1 and words[-1] not in PLACES:
        return Span(start, stop, SpanType.PERSON)
    if words[0] in TITLES and len(words) > 1 and "of" not in words:
        return Span(start, stop, SpanType.PERSON)
    if before in TITLES or re.match(
        r",? (?:said|wrote|argued|claimed|was born|died|stated|married)\b", sentence[stop:]
    ):
        return Span(start, stop, SpanType.PERSON)
    if words[-1] in PLACES or (before in ("in", "near", "In") and len(words) <= 2):
        return Span(start, stop, SpanType.PLACE)
    return Span(start, stop, SpanType.NAME)


def _phrase(match: re.Match[str]) -> Span | None:
    """The part of a candidate that holds no function word except one joining "of", "and", "in", "for"."""
    start = match.start("np")
    words = match["np"].split(" ")
    kept: list[str] = []
    for index, word in enumerate(words):
        joins = word in ("of", "and", "in", "for", "the") and kept and index + 1 < len(words)
        if (word in FUNCTION_WORDS and not joins) or word in NOT_NOUNS or word.endswith(("ly", "n't")):
            break
        if word.endswith("ed") and kept:
            break
        kept.append(word)
    while kept and (kept[-1] in FUNCTION_WORDS or kept[-1] in NOT_NOUNS):
        kept.pop()
    if not kept or (len(kept) == 1 and (len(kept[0]) < 4 or kept[0].endswith(("ed", "ing")))):
        return None
    return Span(start, start + len(" ".join(kept)), SpanType.PHRASE)
