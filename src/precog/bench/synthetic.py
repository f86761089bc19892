"""Text that nobody wrote, with facts in it that can be asked for; the same for the same seed.

Words are made of syllables and drawn like words of a language, few of them often and most of them rarely, so that a
lexical index has the work it would have with real text.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_ONSETS = [
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "g",
    "gl",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "v",
]
_VOWELS = ["a", "e", "i", "o", "u", "ea", "ou", "ai"]
_CODAS = ["", "", "n", "r", "l", "s", "t", "m", "nd", "ck"]
_PLACES = ["bridge", "library", "harbour", "observatory", "mill", "theatre", "lighthouse", "market", "chapel", "school"]
_DEEDS = ["built", "opened", "restored", "painted", "surveyed", "rebuilt", "founded", "measured"]
_FREQUENT = [
    "the",
    "of",
    "and",
    "in",
    "to",
    "a",
    "was",
    "is",
    "for",
    "on",
    "that",
    "by",
    "it",
    "as",
    "with",
    "who",
    "old",
]
_NUM_WORDS = 20_000


@dataclass(frozen=True)
class Fact:
    """A question and the passage that answers it."""

    question: str
    answer: str
    passage: str


class TextMaker:
    """Makes passages and facts from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        words: dict[str, None] = dict.fromkeys(_FREQUENT)
        while len(words) < _NUM_WORDS:
            words[self._word()] = None
        self._words = list(words)
        total, self._cumulative = 0.0, []
        for rank in range(_NUM_WORDS):
            total += 1 / (rank + 2)
            self._cumulative.append(total)

    def _word(self) -> str:
        syllables = self._random.choice((1, 2, 2, 3))
        parts = (_ONSETS, _VOWELS, _CODAS)
        return "".join(self._random.choice(part) for _ in range(syllables) for part in parts)

    def passage(self, num_words: int) -> str:
        """Sentences of 6 to 20 words."""
        drawn = self._random.choices(self._words, cum_weights=self._cumulative, k=num_words)
        sentences, start = [], 0
        while start < num_words:
            stop = start + self._random.randint(6, 20)
            sentences.append(" ".join(drawn[start:stop]).capitalize() + ".")
            start = stop
        return " ".join(sentences)

    def facts(self, count: int, num_words: int) -> list[Fact]:
        """Passages with one sentence in the middle that can be asked for by the name of a town."""
        found = []
        for town, person in zip(self._names(count), self._names(count), strict=True):
            place, deed = self._random.choice(_PLACES), self._random.choice(_DEEDS)
            sentence = f"The old {place} of {town} was {deed} by {person} in {self._random.randint(1500, 1990)}."
            half = (num_words - 12) // 2
            passage = f"{self.passage(half)} {sentence} {self.passage(half)}"
            found.append(Fact(f"Who was it that {deed} the old {place} of {town}?", person, passage))
        return found

    def _names(self, count: int) -> list[str]:
        names: dict[str, None] = {}
        while len(names) < count:
            names[(self._word() + self._word()).capitalize()] = None
        return list(names)


def write_documents(folder: Path, *, num_bytes: int, seed: int = 0, file_bytes: int = 1 << 20) -> Sequence[Path]:
    """Text files of about so many bytes together, paragraphs of 100 to 200 words."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    left = num_bytes
    for paragraphs in _files(TextMaker(seed), num_bytes, file_bytes):
        path = folder / f"{len(paths):05d}.txt"
        path.write_text(paragraphs[:left], encoding="utf-8")
        left -= len(paragraphs)
        paths.append(path)
    return paths


def _files(maker: TextMaker, num_bytes: int, file_bytes: int) -> Iterator[str]:
    made = 0
    while made < num_bytes:
        paragraphs: list[str] = []
        size = 0
        while size < min(file_bytes, num_bytes - made):
            paragraphs.append(maker.passage(100 + 10 * (len(paragraphs) % 11)))
            size += len(paragraphs[-1]) + 2
        made += size
        yield "\n\n".join(paragraphs)
