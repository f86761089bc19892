"""Long documents made of consecutive paragraphs of one article of SQuAD: how far back an answer may lie.

Every document fills a bin of Table 8, and holds the paragraphs that questions are asked about at places drawn by seed.
Scores are told by the document's length, and by the tokens that follow the question's paragraph: what a state forgets
lies there, whatever the length (paper, *Memory Horizon Analysis*).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.errors import InputError, UsageError
from precog.evaluate.experiment import Record
from precog.evaluate.lengths import BINS, EDGES, bin_of, bounds_of
from precog.evaluate.passages import PassageExperiment, PassageQuestion, check_chunk_tokens, summary, table
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import ids_sha256
from precog.state import codec_named
from precog.text.tokenizer import Tokenizer

__all__ = ["DISTANCES", "LongDocuments", "LongSettings", "documents_of"]

LAST = "0"
DISTANCES = (LAST, *BINS)
"""Tokens after the question's paragraph: none, and the bins of lengths."""
_JOIN = "\n\n"


@dataclass(frozen=True)
class LongSettings:
    """What is measured.

    Attributes:
        per_bin: questions in each bin.
        per_document: most questions about one document, whose state is read once for all of them.
        most_tokens: length of the longest document: the end of the last bin.
        chunk_tokens: the longest chunk of the chunked way; 0 for the model's own.
        codec: how states are stored.
        free: decode freely instead of grounded.
        seed: of documents, places and questions.
    """

    per_bin: int = 50
    per_document: int = 4
    most_tokens: int = 3600
    chunk_tokens: int = 0
    codec: str = "fp16"
    free: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        codec_named(self.codec)
        check_chunk_tokens(self.chunk_tokens)
        if self.per_bin < 1 or self.per_document < 1:
            given = f"{self.per_bin} in a bin, {self.per_document} of a document"
            raise UsageError("--per-bin and --per-document are out of range", given=given, expected="at least 1")
        if self.most_tokens <= EDGES[-1]:
            expected = f"more than {EDGES[-1]}"
            raise UsageError("--most-tokens is out of range", given=self.most_tokens, expected=expected)


@dataclass(frozen=True, eq=False)
class _Paragraph:
    text: str
    num_tokens: int
    questions: Sequence[Question]


def documents_of(everything: Sequence[Question], tokenizer: Tokenizer, settings: LongSettings) -> list[PassageQuestion]:
    """Questions about long documents, bin by bin and document by document.

    A document is as many consecutive paragraphs as fit into its bin, from a place drawn by seed; within a bin no
    paragraph stands in two. The paragraphs that are asked about are drawn from it, and a question about each.

    Args:
        everything: the whole file.
        tokenizer: counts.
        settings: how many, and how long.

    Returns:
        Items whose passage is the document; their facts are ``distance``, the tokens after the question's paragraph,
        and ``distance_bin``.

    Raises:
        InputError: no article is long enough for anything.
    """
    articles = _articles(everything, tokenizer)
    items = []
    for name in BINS:
        rng = random.Random(f"{settings.seed} {name}")
        found: list[PassageQuestion] = []
        for document in _documents(articles, tokenizer, bounds_of(name, settings.most_tokens), rng):
            wanted = min(settings.per_document, len(document), settings.per_bin - len(found))
            for place in rng.sample(range(len(document)), wanted):
                asked = rng.choice(document[place].questions)
                found.append(_item(asked, document, place, name, tokenizer))
            if len(found) >= settings.per_bin:
                break
        items += found
    if not items:
        raise InputError("no article of this file fills a document", given=f"{len(articles)} articles")
    return items


def _articles(everything: Sequence[Question], tokenizer: Tokenizer) -> list[list[_Paragraph]]:
    by_title: dict[str, dict[str, list[Question]]] = {}
    for question in everything:
        by_title.setdefault(question.title, {}).setdefault(question.context, []).append(question)
    return [
        [_Paragraph(text, len(tokenizer.encode(text)), own) for text, own in paragraphs.items()]
        for paragraphs in by_title.values()
    ]


def _documents(
    articles: Sequence[Sequence[_Paragraph]], tokenizer: Tokenizer, bounds: tuple[int, int], rng: random.Random
) -> Iterator[list[_Paragraph]]:
    low, high = bounds
    starts = [(article, place) for article, own in enumerate(articles) for place in range(len(own))]
    rng.shuffle(starts)
    used: set[tuple[int, int]] = set()
    for article, start in starts:
        stop, total = start, 0
        while stop < len(articles[article]) and (article, stop) not in used:
            total += articles[article][stop].num_tokens
            if total >= high:
                break
            stop += 1
        document = list(articles[article][start:stop])
        while document and len(tokenizer.encode(_text(document))) >= high:  # what joins paragraphs has tokens, too
            document.pop()
        if document and len(tokenizer.encode(_text(document))) >= low:
            used |= {(article, start + offset) for offset in range(len(document))}
            yield document


def _text(document: Sequence[_Paragraph]) -> str:
    return _JOIN.join(paragraph.text for paragraph in document)


def _item(
    asked: Question, document: Sequence[_Paragraph], place: int, name: str, tokenizer: Tokenizer
) -> PassageQuestion:
    passage = _text(document)
    end = len(_text(document[: place + 1]))
    distance = sum(1 for start, _ in tokenizer.encode_with_offsets(passage)[1] if start >= end)
    distance_bin = LAST if place == len(document) - 1 else bin_of(distance)
    facts = {"distance": distance, "distance_bin": distance_bin, "paragraphs": len(document), "place": place}
    return PassageQuestion(f"{asked.id} {name}", replace(asked, context=passage), facts)


class LongDocuments(PassageExperiment):
    """The experiment.

    Args:
        everything: the whole file of SQuAD.
        backbone: the model.
        settings: what is measured.
        encoder: of sentences, or where it is; the default one when None.

    Raises:
        InputError: no article is long enough for anything.
    """

    name = "long"

    def __init__(
        self,
        everything: Sequence[Question],
        backbone: Backbone,
        settings: LongSettings | None = None,
        encoder: Encoder | str | None = None,
    ) -> None:
        chosen = settings or LongSettings()
        items = documents_of(everything, backbone.tokenizer, chosen)
        passages = "\n".join(item.question.context for item in items)
        choices = {
            **asdict(chosen),
            "ids_sha256": ids_sha256(items),
            "documents_sha256": sha256(passages.encode()).hexdigest(),
        }
        super().__init__(items, backbone, chosen.codec, chosen.chunk_tokens, choices, encoder, free=chosen.free)

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """``bins`` by the document's length and ``distances`` by the tokens after the question's paragraph.

        Each is name ▸ `summary`, None where nothing was asked; ``all`` is one of everything.
        """
        return {
            "bins": table(records, "bin", BINS),
            "distances": table(records, "distance_bin", DISTANCES),
            "all": summary(records),
            "n": len(records),
            **self.settings,
        }
