"""Cloze questions: a sentence with its answer blanked."""

import random
import re

__all__ = ["BLANK", "make_cloze"]

BLANK = "___"
_CLAUSE = re.compile(r"[,;:–—()]\s*| (?=(?:and|but|which|who|while|where|although|because) )")


def make_cloze(sentence: str, start: int, stop: int, rng: random.Random) -> str | None:
    """A question whose blank stands for ``sentence[start:stop]``; None if too little is left to ask by.

    The whole sentence, only the clause around the blank, some words dropped, or its clauses in another order, so
    that neither position nor wording can be copied.
    """
    text = f"{sentence[:start]}{BLANK}{sentence[stop:]}".replace("\n", " ")
    draw = rng.random()
    if draw < 0.45 or len(text) > 160:
        text = _clause(text, rng)
    elif draw < 0.6:
        text = _reordered(text, rng)
    if rng.random() < 0.3:
        text = _thinned(text, rng)
    text = text.strip(" ,;:–—")
    if rng.random() < 0.5:
        text = text.rstrip(".")
    if text.count(BLANK) != 1 or len(text.split()) < 5:
        return None
    return text


def _clause(text: str, rng: random.Random) -> str:
    """The clause with the blank, widened to a neighbour until it has a few words."""
    cuts = [0, *(m.end() for m in _CLAUSE.finditer(text)), len(text)]
    at = text.index(BLANK)
    left = max(i for i, cut in enumerate(cuts) if cut <= at)
    right = next(i for i, cut in enumerate(cuts) if cut >= at + len(BLANK))
    wanted = rng.randint(5, 9)
    while len(text[cuts[left] : cuts[right]].split()) < wanted and (left > 0 or right < len(cuts) - 1):
        if left > 0 and (right == len(cuts) - 1 or rng.random() < 0.5):
            left -= 1
        else:
            right += 1
    return text[cuts[left] : cuts[right]]


def _reordered(text: str, rng: random.Random) -> str:
    parts = [p.strip(" .") for p in re.split(r"[,;:]\s+", text)]
    if len(parts) < 2:
        return text
    turn = rng.randrange(1, len(parts))
    return ", ".join(parts[turn:] + parts[:turn])


def _thinned(text: str, rng: random.Random) -> str:
    return " ".join(w for w in text.split(" ") if BLANK in w or rng.random() > 0.12)
