"""What a sentence that opens with a pronoun speaks of: the subject of the sentence before it, by rules.

Rules that would guess say nothing: an empty answer leaves the pronoun where it stands.
"""

import random
import re
from collections.abc import Sequence

from precog.questions.spans import Span, SpanType
from precog.questions.verbs import is_verb
from precog.questions.vocabulary import FIRST_NAMES, FUNCTION_WORDS

__all__ = ["subject_of"]

_GIVEN_NAMES = frozenset(FIRST_NAMES)
_PRONOUN = re.compile(r"^(He|She|It|They) ")
_THING = re.compile(
    r"^The ((?:[a-z][a-z-]+ ){0,2}[a-z][a-z-]{2,}) (is|was|has|had|are|were|have|became|contains|covers)\b"
)
_VERB = re.compile(r"^ (?:also |then |later |first )?([a-z]+)\b")
_PREDICATE = re.compile(
    r"^ ((?:was|is|became|wrote|founded|won|led|served|taught|invented|discovered|designed|composed|directed|built|"
    r"married|ruled|joined|played|painted|published)\b[^,;:()\"“]{6,60}?)"
    r"(?=[,;.]| and | but | where | when | which | who )"
)


def subject_of(sentence: str, before: str, spans_before: Sequence[Span], title: str, rng: random.Random) -> str:
    """The subject of ``sentence`` where it opens with a pronoun.

    Args:
        sentence: the sentence to be asked about.
        before: the one before it in the same paragraph, or empty.
        spans_before: the typed spans of ``before``.
        title: the document's title.
        rng: source of every choice.

    Returns:
        A noun phrase to put in the pronoun's place, empty when unsure. A description such as "the person who wrote the
        novel" is used for some people, so that the question's cue lies in the sentence before the answer's.
    """
    pronoun = _PRONOUN.match(sentence)
    if pronoun is None:
        return ""
    opener = next((s for s in spans_before if s.start == 0), None)
    if pronoun[1] in ("He", "She"):
        people = [s for s in spans_before if s.type is SpanType.PERSON]
        if opener is not None and opener.type is SpanType.PERSON and len(people) == 1:
            verb = _VERB.match(before[opener.stop :])
            if verb is not None and is_verb(verb[1]):
                predicate = _PREDICATE.match(before[opener.stop :])
                if predicate is not None and rng.random() < 0.5:
                    return f"the person who {predicate[1]}"
                return before[opener.start : opener.stop]
        if not people and _is_person(title):
            return title
        return ""
    thing = _THING.match(before)
    if thing is not None:
        plural = thing[2] in ("are", "were", "have")
        if plural == (pronoun[1] == "They") and not set(thing[1].split()) & FUNCTION_WORDS:
            return f"the {thing[1]}"
    if opener is not None and pronoun[1] == "It" and opener.type is SpanType.NAME:
        verb = _VERB.match(before[opener.stop :])
        if verb is not None and verb[1] in ("is", "was", "has", "became", "lies", "contains", "covers"):
            return before[opener.start : opener.stop]
    if pronoun[1] == "It" and title and before.startswith((f"{title} ", f"The {title} ")):
        return title
    return ""


def _is_person(title: str) -> bool:
    words = title.split()
    return len(words) in (2, 3) and words[0] in _GIVEN_NAMES and all(w[0].isupper() for w in words)
