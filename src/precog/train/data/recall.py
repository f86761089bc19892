"""Key–value recall, small tables and copying, made from nothing but random words.

One to thirty-two facts per passage: the curriculum that teaches a fixed-size state to bind and to be addressed.
"""

import random
from collections.abc import Callable

from precog.questions.passage import Ask, Kind, Passage
from precog.questions.vocabulary import ADJECTIVES, CITIES, FIRST_NAMES, JOBS, NOUNS, ONSETS, VOWELS

__all__ = ["make_copy", "make_recall", "make_table"]

_CODAS = ["n", "r", "l", "s", "m", "t", "nd", "rd", *[""] * 10]


def _name(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(FIRST_NAMES)
    syllables = rng.choice((1, 2, 2, 2, 3))
    word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(_CODAS) for _ in range(syllables))
    return word.capitalize()


def _full_name(rng: random.Random) -> str:
    return f"{_name(rng)} {_name(rng)}"


def _thing(rng: random.Random) -> str:
    return f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"


def _number(rng: random.Random) -> str:
    return rng.choice(
        (str(rng.randint(2, 99)), str(rng.randint(100, 9999)), f"{rng.randint(1, 999)},{rng.randint(0, 999):03d}")
    )


def _year(rng: random.Random) -> str:
    return str(rng.randint(1100, 2024))


_Maker = Callable[[random.Random], str]
_Choice = tuple[_Maker, _Maker, tuple[tuple[str, tuple[str, ...]], ...]]
"""Maker of keys, maker of values, and pairs of (statement, questions)."""


def _city(rng: random.Random) -> str:
    return rng.choice(CITIES)


def _job(rng: random.Random) -> str:
    return f"{rng.choice(ADJECTIVES)} {rng.choice(JOBS)}" if rng.random() < 0.2 else rng.choice(JOBS)


_FACTS: tuple[_Choice, ...] = (
    (_name, _number, (
        ("The code of {k} is {v}.", ("What is the code of {k}?", "Which code does {k} have?", "{k}'s code is what?")),
        ("{k}: {v}", ("{k}?", "What stands beside {k}?", "Which number belongs to {k}?")),
        ("{k} has {v} coins.", ("How many coins does {k} have?", "What number of coins is owned by {k}?")),
        ("In total, {v} people live in {k}.", ("How many people live in {k}?", "What is the population of {k}?")),
    )),
    (_full_name, _city, (
        ("{k} lives in {v}.", ("Where does {k} live?", "In which city does {k} live?", "What city is {k}'s home?")),
        ("{k} was born in {v}.", ("Where was {k} born?", "What is the birthplace of {k}?")),
        ("{k} flew to {v} yesterday.", ("Where did {k} fly?", "To what city did {k} travel?")),
    )),
    (_full_name, _year, (
        ("{k} was born in {v}.", ("When was {k} born?", "In what year was {k} born?", "What is {k}'s birth year?")),
        ("In {v}, {k} became king.", ("When did {k} become king?", "What year did {k} become king?")),
        ("{k} died in {v}.", ("When did {k} die?", "In which year did the death of {k} occur?")),
    )),
    (_full_name, _job, (
        ("The job of {k} is {v}.", ("What does {k} work as?", "What profession has {k}?", "What is {k}'s job?")),
        ("The {v} is {k}.", ("What is {k}?", "What job has {k}?")),
    )),
    (_thing, _name, (
        ("The {k} belongs to {v}.", ("Who owns the {k}?", "To whom does the {k} belong?", "Whose is the {k}?")),
        ("{v} found the {k}.", ("Who found the {k}?", "By whom was the {k} found?")),
        ("The {k} was made by {v}.", ("Who made the {k}?", "Who is the maker of the {k}?")),
        ("{v} is afraid of the {k}.", ("Who is afraid of the {k}?", "Who fears the {k}?")),
    )),
    (_name, _thing, (
        ("{k} bought a {v}.", ("What did {k} buy?", "What was bought by {k}?", "What item does {k} have now?")),
        ("{k} is holding the {v}.", ("What is {k} holding?", "What does {k} hold?")),
        ("A {v} was given to {k}.", ("What was given to {k}?", "What did {k} receive?")),
    )),
    (_city, _name, (
        ("The mayor of {k} is {v}.", ("Who is the mayor of {k}?", "What is the name of {k}'s mayor?")),
        ("The largest park in {k} is called {v}.", ("What is the largest park in {k} called?", "What park is in {k}?")),
        ("{v} is the capital of {k}.", ("What is the capital of {k}?", "Which city is {k}'s capital?")),
    )),
)  # fmt: skip


def _distinct(make: _Maker, count: int, rng: random.Random) -> list[str]:
    seen: dict[str, None] = {}
    for _ in range(20 * count):
        if len(seen) == count:
            break
        seen.setdefault(make(rng))
    return list(seen)


def make_recall(num_pairs: int, rng: random.Random, max_asks: int = 12) -> Passage:
    """``num_pairs`` facts of one to three relations, in random order, and a question for up to ``max_asks`` of them."""
    relations = rng.sample(_FACTS, rng.choice((1, 1, 2, 3)) if num_pairs > 2 else 1)
    facts: list[tuple[str, str, str]] = []
    used: set[str] = set()
    for index, (make_key, make_value, templates) in enumerate(relations):
        share = num_pairs // len(relations) + (index < num_pairs % len(relations))
        statement, questions = rng.choice(templates)
        for key in _distinct(make_key, share, rng):
            if key in used:
                continue
            used.add(key)
            facts.append((statement.replace("{k}", key), make_value(rng), rng.choice(questions).replace("{k}", key)))
    rng.shuffle(facts)
    text, asks = "", []
    separator = rng.choice((" ", " ", "\n"))
    for statement, value, question in facts:
        text += separator if text else ""
        at = len(text) + statement.index("{v}")
        text += statement.replace("{v}", value)
        asks.append(Ask(question, at, at + len(value), Kind.KEY_VALUE))
    return Passage(text, tuple(rng.sample(asks, min(max_asks, len(asks)))))


def make_table(num_rows: int, rng: random.Random, max_asks: int = 12) -> Passage:
    """A table of people or things in one of three surfaces, and questions about its cells."""
    columns: list[tuple[str, _Maker]] = rng.sample(
        [("age", lambda r: str(r.randint(1, 99))), ("city", _city), ("job", _job), ("year", _year), ("code", _number),
         ("item", _thing), ("friend", _name)], rng.randint(2, 3)
    )  # fmt: skip
    surface = rng.choice(("comma", "bar", "sentence"))
    header = ["name", *(name for name, _ in columns)]
    text = {"comma": ", ".join(header), "bar": " | ".join(header), "sentence": ""}[surface]
    asks = []
    for key in _distinct(_name, num_rows, rng):
        text += {"comma": "\n", "bar": "\n", "sentence": " " if text else ""}[surface] + key
        for index, (name, make) in enumerate(columns):
            value = make(rng)
            text += {"comma": ", ", "bar": " | ", "sentence": f" has the {name} " if index == 0 else f", the {name} "}[
                surface
            ]
            question = rng.choice((f"What is the {name} of {key}?", f"Which {name} has {key}?", f"{key}'s {name}?"))
            asks.append(Ask(question, len(text), len(text) + len(value), Kind.TABLE))
            text += value
        text += "." if surface == "sentence" else ""
    return Passage(text, tuple(rng.sample(asks, min(max_asks, len(asks)))))


def make_copy(num_words: int, rng: random.Random, max_asks: int = 8) -> Passage:
    """Random words; each question names two neighbours and asks for the one to four words after them."""
    plain = [*NOUNS, *ADJECTIVES, *JOBS]
    words = [_name(rng) if rng.random() < 0.2 else rng.choice(plain) for _ in range(num_words)]
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    asks = []
    pairs = [" ".join(words[i : i + 2]) for i in range(num_words)]
    for index in rng.sample(range(num_words - 3), min(max_asks, num_words - 3)):
        if pairs.count(pairs[index]) > 1:
            continue
        count = rng.randint(1, min(4, num_words - index - 2))
        last = index + 1 + count
        question = rng.choice(("What comes after {p}?", "Which words follow {p}?", "Continue: {p}", "{p} ___"))
        asks.append(
            Ask(question.replace("{p}", pairs[index]), starts[index + 2], starts[last] + len(words[last]), Kind.COPY)
        )
    return Passage(" ".join(words), tuple(asks))
