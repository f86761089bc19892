"""Questions made harder to find by their words: thinned, reworded, recast, or carelessly written.

Each rule returns the question unchanged where it does not apply. Rules know words, not meanings: they change only what
stands where a noun, a verb or an adjective of their tables must stand.
"""

import random
import re
from collections.abc import Collection

from precog.questions.verbs import base_form, is_verb, participle
from precog.questions.vocabulary import AUXILIARIES, DETERMINERS, FUNCTION_WORDS, PREPOSITIONS, words
from precog.questions.wordings import (
    AGENTS,
    DEMONYMS,
    NOUN_WORDINGS,
    NUMERALS,
    OTHER_WORDINGS,
    PARTICIPLE_WORDINGS,
    PAST_WORDINGS,
    PRESENT_WORDINGS,
    VERB_WORDINGS,
)

__all__ = ["careless", "content_words", "recast", "reword", "thin", "trim"]

_WORD = re.compile(r"\w+")
_WH = frozenset(words("who whom whose which what when where why how many much"))
_ASKED_FOR = frozenset(
    words(
        "name year date day time number percentage percent proportion amount sum money kind type sort person "
        "people place location country city state distance long far large big old tall reason title phrase "
        "term"
    )
)
_BE_HAVE = frozenset(words("is are was were be been being has have had"))
_PARTICLES = frozenset(words("to into up out on off over down away with for as about"))
_BASE_AFTER = frozenset(words("did does do to will would can could may might must should"))
_NOUN_AFTER = (
    DETERMINERS | PREPOSITIONS - {"to", "as"} | frozenset(words("of which what many these those first last no"))
)
_DIGITS = {digits: word for word, digits in NUMERALS.items()}


def content_words(text: str) -> set[str]:
    """The words of a text that carry content, in lower case."""
    return {w for w in _WORD.findall(text.lower()) if w not in FUNCTION_WORDS and w not in _ASKED_FOR}


def thin(
    question: str,
    rng: random.Random,
    least: float = 0.3,
    most: float = 0.6,
    shared: Collection[str] = (),
) -> str:
    """Drop 30 to 60 % of the content words, or another share, with the small words before them; three to six stay.

    Names and numbers are dropped half as often as other words, and words that the evidence has, too (``shared``, in
    lower case), more often than those it lacks. The question words, what they ask for and a blank stay.
    """
    units: list[list[str]] = [[]]
    for word in question.rstrip("?").split():
        plain = word.strip(",.;:()'\"").lower()
        units[-1].append(word)
        if plain not in FUNCTION_WORDS and plain not in _WH:
            units.append([])
    if not units[-1]:
        units.pop()
    fixed = [_fixed(unit) or (_is_verb(unit[-1]) and rng.random() < 0.8) for unit in units]
    movable = [i for i in range(1, len(units)) if not fixed[i] and not (fixed[i - 1] and i + 1 == len(units))]
    room = min(len(movable) - 1, len(units) - rng.randint(3, 6))
    count = min(room, round(len(units) * rng.uniform(least, most)))
    if count < 1:
        return question
    ends = {i: units[i][-1].strip(",.;:()'\"") for i in movable}
    named = {i for i in movable if ends[i][:1].isupper() or ends[i][:1].isdigit()}
    told = {i for i in movable if ends[i].lower() in shared}
    weights = {i: rng.random() ** (0.5 if i in named else 1) * (0.5 if i in told else 1) for i in movable}
    dropped = set(sorted(movable, key=weights.__getitem__)[:count])
    kept = []
    for i, unit in enumerate(units):
        kept += unit if i not in dropped else [w for w in unit if w.lower() in AUXILIARIES or w.lower() in _WH]
    text = " ".join(kept).rstrip(" ,;:")
    while text.rsplit(" ", 1)[-1].lower() in DETERMINERS | PREPOSITIONS | {"and", "or", "but"}:
        text = text.rsplit(" ", 1)[0].rstrip(" ,;:")
    return text + ("?" if question.endswith("?") else "")


def _is_verb(word: str) -> bool:
    word = word.rstrip(",.;:")
    return is_verb(word) or word in VERB_WORDINGS


def _fixed(unit: list[str]) -> bool:
    """Whether a unit holds a blank or what is asked for."""
    words = [w.strip(",.;:?").lower() for w in unit]
    after_wh = len(words) > 1 and words[-2] in ("which", "what", "many", "much", "how")
    return after_wh or words[-1] in _ASKED_FOR or any("___" in w for w in words)


def reword(question: str, rng: random.Random, share: float = 0.6) -> str:
    """Replace words by others of the same meaning and form, numerals by digits and digits by numerals."""
    words = question.split(" ")
    out: list[str] = []
    helped = False  # whether "did" or "does" stands before, which makes a later verb a base form
    for i, word in enumerate(words):
        body = word.rstrip("?,.;:")
        tail = word[len(body) :]
        before = words[i - 1].lower() if i else ""
        after = words[i + 1].lower() if i + 1 < len(words) else ""
        other = _other(body, before, after, helped, rng) if i and before != "how" and rng.random() < share else None
        if other and before in ("a", "an") and (other[0] in "aeiou") != (body[0] in "aeiou"):
            out[-1] = "an" if other[0] in "aeiou" else "a"
        out.append((other or body) + tail)
        helped = helped or word in ("did", "do", "does")
    return " ".join(out)


def _other(word: str, before: str, after: str, helped: bool, rng: random.Random) -> str | None:
    if word in NUMERALS:
        return NUMERALS[word]
    if word in _DIGITS and after.isalpha():
        return _DIGITS[word]
    if not word.islower() or word in _WH or word in _ASKED_FOR:
        return None
    found: tuple[str, ...] = ()
    after = after.rstrip("?,.;:")
    if before in _NOUN_AFTER or before in OTHER_WORDINGS:
        found = NOUN_WORDINGS.get(word, ()) if after not in ("of",) or before != "a" else ()
    if not found and after not in _PARTICLES:
        if before in _BASE_AFTER or (helped and before not in _NOUN_AFTER and word in VERB_WORDINGS):
            found = VERB_WORDINGS.get(word, ())
        elif before in _BE_HAVE:
            found = PARTICIPLE_WORDINGS.get(word, ())
        elif before not in DETERMINERS:
            found = PAST_WORDINGS.get(word, ())
            if before in ("who", "which", "that", "what"):
                found = found or PRESENT_WORDINGS.get(word, ())
    found = found or OTHER_WORDINGS.get(word, ())
    if not found and before in PREPOSITIONS and len(word) > 5 and word.endswith("s") and rng.random() < 0.5:
        found = () if word.endswith(("ss", "us", "is", "ies", "ses")) else (word[:-1],)
    return rng.choice(found) if found else None


def trim(question: str, rng: random.Random) -> str:
    """Drop what a question can do without and stay a sentence: its last adjunct, an adjective before a noun."""
    end = "?" if question.endswith("?") else ""
    text = question.removesuffix("?")
    if rng.random() < 0.5:
        head = text[: match.start()] if (match := _ADJUNCT.search(text)) else text
        if len(content_words(head)) >= 3 and not _WH.isdisjoint(head.lower().split()):
            text = head
    for match in _MODIFIED.finditer(text):
        modifier = match[2] in OTHER_WORDINGS or _ADJECTIVE.search(match[2])
        if rng.random() < 0.6 and modifier and not _ends_phrase(match[3]):
            text = f"{text[: match.start(2)]}{text[match.end(2) + 1 :]}"
            break
    return text.rstrip(" ,") + end if len(content_words(text)) >= 3 else question


def _ends_phrase(after: str) -> bool:
    """Whether a noun phrase is over where ``after`` stands."""
    return not after or after in FUNCTION_WORDS or _is_verb(after)


_ADJUNCT = re.compile(r" (?:in|at|on|during|from|for|with|by|under|through|after|before|near) (?:[^ ]+ ){0,4}[^ ]+$")
_ADJECTIVE = re.compile(r"(?:al|ic|ous|ive|ful|ian|ern|ary|able|ible|less)$")
_MODIFIED = re.compile(r"\b(the|a|an|its|his|her|their) ([a-z-]{3,}) ([a-z-]{3,})\b")


def _of_country(question: str) -> str:
    """Of "the French king" make "the king of France", where the noun ends its phrase."""
    match = _DEMONYM.search(question)
    if match is None or match[1] not in DEMONYMS or not _ends_phrase(match[3] or ""):
        return question
    return f"{question[: match.start()]}{match[2]} of {DEMONYMS[match[1]]}{question[match.end(2) :]}"


_DEMONYM = re.compile(r"(?<=[a-z] )([A-Z][a-z]+) ([a-z]{3,})(?= ([a-z]*)|(\?|$))")
_LIFE = re.compile(
    r"^(Where|When|In what year|In which year) (was|did) "
    r"([A-Z][\w.’'-]*(?: [\w.’'-]+){0,4}?) (born|die|buried)\?$"
)
_DID = re.compile(
    r"^Who ([a-z]+) "
    r"((?:the |a |an )?[\w’'-]+(?: (?!in |on |at |from |for |by |to |with |and )[\w’'-]+){0,5})"
    r"( (?:in|on|at|from|for|during) [^?]+)?\?$"
)
_LIFE_NOUNS: dict[tuple[str, str], tuple[str, ...]] = {
    ("where", "born"): ("What is the birthplace of {x}?", "What is the place of birth of {x}?"),
    ("where", "die"): ("What is the place of death of {x}?", "What was the place of {x}'s death?"),
    ("where", "buried"): ("What is the burial place of {x}?", "What is the resting place of {x}?"),
    ("when", "born"): ("What is the date of birth of {x}?", "When was the birth of {x}?"),
    ("when", "die"): ("What is the date of death of {x}?", "When was the death of {x}?"),
}


def recast(question: str, rng: random.Random) -> str:
    """Another construction of the same question: birthplace for "where born", agent nouns, the passive."""
    life = _LIFE.match(question)
    if life is not None:
        front = "where" if life[1] == "Where" else "when"
        forms = _LIFE_NOUNS.get((front, life[4]), ())
        if front == "when" and life[1] != "When":
            forms = (f"What is the year of {'birth' if life[4] == 'born' else 'death'} of {{x}}?",)
        return rng.choice(forms).replace("{x}", life[3]) if forms else question
    did = _DID.match(question)
    if did is None:
        return _of_country(question)
    if did[1] in AUXILIARIES or did[1] in FUNCTION_WORDS:
        return question
    base, rest = base_form(did[1]), did[3] or ""
    if base in AGENTS and not rest and rng.random() < 0.6:
        be = rng.choice(("is", "was"))
        return f"Who {be} the {AGENTS[base]} of {did[2]}{rest}?"
    if base not in VERB_WORDINGS and base not in AGENTS:
        return question
    head = did[2].split(" of ")[0].rsplit(" ", 1)[-1]
    plural = head.endswith("s") and head.islower()
    be = "were" if plural else "was"
    if rng.random() < 0.5:
        return f"By whom {be} {did[2]} {participle(base)}{rest}?"
    return f"{did[2][0].upper()}{did[2][1:]} {be} {participle(base)}{rest} by whom?"


def careless(question: str, rng: random.Random) -> str:
    """The question as people type it: an article dropped, no capitals, no question mark; each now and then."""
    words = question.split(" ")
    articles = [i for i, w in enumerate(words) if w in ("the", "a", "an") and i + 1 < len(words)]
    if articles and rng.random() < 0.3:
        del words[rng.choice(articles)]
    text = " ".join(words)
    if rng.random() < 0.2:
        text = text.lower()
    if rng.random() < 0.2:
        text = text.rstrip("?")
    return text
