"""SQuAD paragraphs told anew: sentences dropped, shuffled and borrowed, entities replaced, questions in other words.

Every answer stays the characters of its own sentence. An unanswerable question is one of another paragraph of the same
article, taken only where the answer does not occur and no sentence looks like the question.
"""

import random
from collections.abc import Mapping, Sequence

from precog.questions.noise import careless, content_words, recast, reword, trim
from precog.questions.passage import Ask, Kind, Passage
from precog.questions.spans import split_sentences
from precog.questions.vocabulary import words
from precog.train.data.counterfactual import EntityPool
from precog.train.data.squad import Paragraph, counterfactual_passage, squad_passages

__all__ = ["remixed", "unanswerable_asks"]

_MAX_CHARS = 1000
_LIKE = 0.6
_Other = tuple[str, str]  # question and answer


def unanswerable_asks(text: str, others: Sequence[_Other], rng: random.Random, count: int) -> list[Ask]:
    """Up to ``count`` questions of other texts that ``text`` does not answer.

    Args:
        text: the chunk.
        others: questions with their answers, asked of neighbouring texts.
        rng: source of every choice.
        count: most questions.
    """
    lower = text.lower()
    sentences: list[set[str]] | None = None
    asks: list[Ask] = []
    for question, answer in rng.sample(others, min(len(others), 3 * count)):
        if len(asks) >= count:
            break
        if answer.lower() in lower:
            continue
        words = content_words(question)
        if len(words) < 3:
            continue
        if sentences is None:
            sentences = [content_words(line[a:b]) for line in text.split("\n") for a, b in split_sentences(line)]
        if all(len(words & sentence) < _LIKE * len(words) for sentence in sentences):
            asks.append(Ask(question, 0, 0, Kind.UNANSWERABLE))
    return asks


def remixed(
    paragraph: Paragraph,
    article: Sequence[Paragraph],
    pool: EntityPool,
    rng: random.Random,
    unanswerable: float,
) -> list[Passage]:
    """One remix of a paragraph.

    Args:
        paragraph: the paragraph and its questions.
        article: all paragraphs of its article, to borrow sentences and unanswerable questions from.
        pool: entities for replacements; learns this paragraph's.
        rng: source of every choice.
        unanswerable: share of the questions that the passage does not answer.
    """
    elsewhere = [p for p in article if p.text != paragraph.text]
    made = []
    for passage in squad_passages(paragraph):
        passage = _retold(passage, elsewhere, rng)
        if rng.random() < 0.6:
            passage = counterfactual_passage(passage, pool, rng) or passage
        asks = [ask._replace(question=_asked_anew(ask.question, passage, ask, rng)) for ask in passage.asks]
        wanted = len(asks) * unanswerable / (1 - unanswerable)
        count = int(wanted) + (rng.random() < wanted % 1)
        if count and elsewhere:
            other = [(q.strip(), a) for p in rng.sample(elsewhere, min(6, len(elsewhere))) for q, a, _ in p.asked]
            asks += [
                ask._replace(question=careless(ask.question, rng))
                for ask in unanswerable_asks(passage.text, other, rng, count)
            ]
        made.append(Passage(passage.text, tuple(asks)))
    return made


def _asked_anew(question: str, passage: Passage, ask: Ask, rng: random.Random) -> str:
    answer = passage.text[ask.start : ask.stop].lower()
    new = question
    draw = rng.random()
    if draw < 0.12:
        new = trim(new, rng)
    elif draw < 0.35:
        new = reword(recast(new, rng), rng, 0.5)
    new = careless(new, rng)
    return question if answer in new.lower() and answer not in question.lower() else new


def _retold(passage: Passage, elsewhere: Sequence[Paragraph], rng: random.Random) -> Passage:
    """Some sentences without answers dropped, some borrowed from the article, the order changed now and then.

    A sentence that opens with a pronoun or a word that points back stays behind the one before it.
    """
    text = passage.text
    edges = split_sentences(text)
    if not edges:
        return passage
    owner = _owners(passage.asks, edges)
    if owner is None:
        return passage
    blocks: list[list[int]] = []
    for index, (start, stop) in enumerate(edges):
        if blocks and _points_back(text[start:stop]):
            blocks[-1].append(index)
        else:
            blocks.append([index])
    answering = set(owner.values())
    drop = rng.choice((0.0, 0.3, 0.6))
    kept = [block for block in blocks if answering & set(block) or rng.random() >= drop]
    if rng.random() < 0.4:
        rng.shuffle(kept)
    parts: list[str | int] = [index for block in kept for index in block]
    heads = [len([i for block in kept[:n] for i in block]) for n in range(len(kept) + 1)]
    length = sum(edges[i][1] - edges[i][0] + 1 for i in parts if isinstance(i, int))
    answers = {text[a.start : a.stop].lower() for a in passage.asks}
    if elsewhere and rng.random() < 0.5:
        for sentence in _borrowed(rng.choice(elsewhere).text, answers, rng):
            if length + len(sentence) + 1 <= _MAX_CHARS:
                parts.insert(rng.choice(heads), sentence)
                length += len(sentence) + 1
                heads = [0, len(parts)]
    return _joined(passage, edges, owner, parts)


def _owners(asks: Sequence[Ask], edges: Sequence[tuple[int, int]]) -> dict[int, int] | None:
    """Sentence of each ask by its number; None where an answer lies across two sentences."""
    owner = {}
    for number, ask in enumerate(asks):
        inside = [i for i, (start, stop) in enumerate(edges) if start <= ask.start and ask.stop <= stop]
        if not inside:
            return None
        owner[number] = inside[0]
    return owner


def _points_back(sentence: str) -> bool:
    words = [word.strip("\"'“(,").lower() for word in sentence.split(" ", 5)[:5]]
    return words[0] in _BACKWARD or not _PRONOUNS.isdisjoint(words[1:])


_PRONOUNS = frozenset(words("he she it they him her them his its their this these those such"))
_BACKWARD = frozenset(
    words(
        "he she it they his her its their this that these those such both however but and or also then thus "
        "therefore another other others similarly instead moreover furthermore additionally afterwards later "
        "meanwhile here there one two first second third finally"
    )
)


def _borrowed(text: str, answers: set[str], rng: random.Random) -> list[str]:
    """One or two neighbouring sentences that hold none of the answers."""
    edges = split_sentences(text)
    first = rng.randrange(len(edges)) if edges else 0
    found = [text[start:stop] for start, stop in edges[first : first + rng.randint(1, 2)]]
    return [s for s in found if len(s) < 400 and not _points_back(s) and not any(a in s.lower() for a in answers)]


def _joined(
    passage: Passage, edges: Sequence[tuple[int, int]], owner: Mapping[int, int], parts: Sequence[str | int]
) -> Passage:
    texts: list[str] = []
    moved: dict[int, int] = {}
    at = 0
    for part in parts:
        sentence = part if isinstance(part, str) else passage.text[slice(*edges[part])]
        if isinstance(part, int):
            moved[part] = at
        texts.append(sentence)
        at += len(sentence) + 1
    asks = []
    for number, ask in enumerate(passage.asks):
        start = ask.start - edges[owner[number]][0] + moved[owner[number]]
        asks.append(ask._replace(start=start, stop=start + ask.stop - ask.start))
    return Passage(" ".join(texts), tuple(asks))
