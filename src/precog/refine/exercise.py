"""A text ▸ what its state practises: questions made from it by rules, as token rows that end in their answers.

Nothing but the text and its title goes in. Questions and answers of a data set are never seen here.
"""

import hashlib
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.engine.templates import question_segment
from precog.questions.asking import asks_about, sentences_of
from precog.questions.passage import Ask

MOST_QUESTIONS = 40
MAX_ROW_TOKENS = 96
MAX_ANSWER_TOKENS = 24
HELD_OUT = 0.25
MIN_ANSWERS = 4
"""Different answers of a text: with fewer, what is held out says nothing."""
_ROUNDS = 6  # each draws other spans and other words for them
_PER_ROUND = 64


@dataclass(frozen=True)
class Exercise:
    """One question as a model reads it.

    Attributes:
        token_ids: opening, prompt, answer, end token.
        num_prompt: tokens before the answer.
    """

    token_ids: tuple[int, ...]
    num_prompt: int


@dataclass(frozen=True)
class Exercises:
    """The questions of one text; none of those held out has an answer of those that are practised.

    Attributes:
        practice: what is trained on.
        held_out: what decides whether it helped.
    """

    practice: tuple[Exercise, ...]
    held_out: tuple[Exercise, ...]


def exercises_of(
    backbone: Backbone, text: str, title: str, token_ids: Sequence[int], seed: int = 0
) -> Exercises | None:
    """What a text's state practises: the same for the same text, title and seed.

    Args:
        backbone: whose tokenizer and question template are used.
        text: that was read.
        title: of what it stands in; "" for none.
        token_ids: of the text; answers are tokens of it.
        seed: of everything that is drawn.

    Returns:
        At most `MOST_QUESTIONS` questions; None where the text gives fewer than `MIN_ANSWERS` different answers, or
        its tokens are not those that its tokenizer makes of it.
    """
    ids, spans = backbone.tokenizer.encode_with_offsets(text)
    if list(token_ids) != ids:
        return None
    rng = random.Random(_number(text, title, seed))
    made: list[tuple[tuple[int, int], Exercise]] = []
    for ask in _asks(text, title, rng):
        place = answer_tokens(text, spans, ask.start, ask.stop)
        if place is None or place[1] - place[0] > MAX_ANSWER_TOKENS:
            continue
        prompt = question_segment(backbone, ask.question)
        row = (*prompt, *ids[slice(*place)], backbone.tokenizer.eos_id)
        if len(row) <= MAX_ROW_TOKENS:
            made.append((place, Exercise(row, len(prompt))))
    del made[MOST_QUESTIONS:]
    places = sorted({place for place, _ in made})
    if len(places) < MIN_ANSWERS:
        return None
    held = set(rng.sample(places, max(1, round(HELD_OUT * len(places)))))
    return Exercises(
        tuple(exercise for place, exercise in made if place not in held),
        tuple(exercise for place, exercise in made if place in held),
    )


def answer_tokens(text: str, spans: Sequence[tuple[int, int]], start: int, stop: int) -> tuple[int, int] | None:
    """The tokens that cover the characters ``start:stop`` of a text.

    Args:
        text: the text.
        spans: of each token, its characters; starts and ends never fall.
        start: first character of the answer.
        stop: the one after its last.

    Returns:
        First token and the one after the last; None where one joins the answer to a letter or digit outside it.
    """
    starts, ends = [span[0] for span in spans], [span[1] for span in spans]
    first, last = bisect_right(ends, start), bisect_left(starts, stop)
    if first >= last:
        return None
    around = text[starts[first] : start] + text[stop : ends[last - 1]]
    return None if any(char.isalnum() for char in around) else (first, last)


def _asks(text: str, title: str, rng: random.Random) -> list[Ask]:
    """Different questions of several rounds, in the order they were drawn."""
    sentences = sentences_of(text)
    asks: dict[str, Ask] = {}
    for _ in range(_ROUNDS):
        for ask in asks_about(text, title, rng, _PER_ROUND, sentences):
            if ask.question.strip():
                asks.setdefault(ask.question, ask)
    return list(asks.values())


def _number(text: str, title: str, seed: int) -> int:
    told = f"{seed}\0{title}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(told).digest()[:8], "big")
