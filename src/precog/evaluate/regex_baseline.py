"""A model-free answer: the entity of the right type in the sentence that shares most words with the question.

The floor that reading has to beat. It knows the gold paragraph and nothing else.
"""

import re

from precog.questions.spans import Span, SpanType, find_spans, split_sentences
from precog.questions.vocabulary import FUNCTION_WORDS

__all__ = ["answer_by_rule"]

_WORD = re.compile(r"\w+")
_NAMES = (SpanType.PERSON, SpanType.PLACE, SpanType.NAME)
_AMOUNTS = (SpanType.NUMBER, SpanType.MEASURE, SpanType.MONEY, SpanType.PERCENT, SpanType.YEAR)
_RULES: tuple[tuple[re.Pattern[str], tuple[SpanType, ...]], ...] = (
    (re.compile(r"\b(?:what|which|in) year\b|\bwhen\b"), (SpanType.YEAR, SpanType.DATE)),
    (re.compile(r"\b(?:what|which) (?:date|day|month|century|decade)\b"), (SpanType.DATE, SpanType.YEAR)),
    (re.compile(r"\bhow (?:many|old)\b|\bwhat number\b"), (SpanType.NUMBER, SpanType.MEASURE, SpanType.PERCENT)),
    (re.compile(r"\bhow much\b|\bpercent|\bhow (?:long|far|tall|large|big|high|deep|often)\b"), _AMOUNTS),
    (re.compile(r"\bwhose?\b|\bwhom\b"), (SpanType.PERSON, SpanType.NAME)),
    (re.compile(r"\bwhere\b|\b(?:city|country|state|place|location)\b"), (SpanType.PLACE, SpanType.NAME)),
    (re.compile(r"\bwhy\b"), (SpanType.REASON, SpanType.PHRASE)),
)
_ANYTHING = (*_NAMES, SpanType.QUOTE, SpanType.PHRASE)


def answer_by_rule(question: str, context: str) -> str:
    """The answer by rule; empty only if the context holds no span at all.

    Among the spans of the first type that the best sentence has, the one nearest to the words it shares with the
    question and not itself named in the question.
    """
    asked = question.lower()
    words = set(_WORD.findall(asked)) - FUNCTION_WORDS
    wanted = next((types for pattern, types in _RULES if pattern.search(asked)), _ANYTHING)
    sentences = [line[a:b] for line in context.split("\n") for a, b in split_sentences(line)]
    ranked = sorted(sentences, key=lambda s: -len(words & set(_WORD.findall(s.lower()))))
    for types in (wanted, _ANYTHING, _AMOUNTS):
        for sentence in ranked:
            spans = [s for s in find_spans(sentence) if sentence[s.start : s.stop].lower() not in asked]
            for kind in types:
                typed = [s for s in spans if s.type is kind]
                if typed:
                    best = min(typed, key=lambda s: _distance(sentence, s, words))
                    return sentence[best.start : best.stop]
    return ""


def _distance(sentence: str, span: Span, words: set[str]) -> float:
    """Mean distance in characters to the words shared with the question."""
    places = [m.start() for m in _WORD.finditer(sentence.lower()) if m[0] in words]
    middle = (span.start + span.stop) / 2
    return sum(abs(p - middle) for p in places) / len(places) if places else float(span.start)
