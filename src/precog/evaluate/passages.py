"""Questions about passages of any length, each answered in three ways (paper Table 8; ERRATA 9).

``in_context`` reads passage and question in one pass; ``whole`` injects one stored state of the whole passage, which
Theorem 1 says is the same thing at every length; ``chunked`` injects the state of the passage's best chunk, cut as
`precog index` cuts and found as it finds: what that loses, or gains, is retrieval's doing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.errors import UsageError
from precog.evaluate.experiment import Record
from precog.evaluate.lengths import bin_of
from precog.evaluate.parts import about_parts, parts_for
from precog.evaluate.passage_states import KEPT, PassageStates
from precog.evaluate.reader import ParagraphReader, Said
from precog.evaluate.retrieving import encoder_of, ranked
from precog.evaluate.scores import Scored, about, decoding_of, f1_gain, scored, table_row
from precog.evaluate.squad_data import Question
from precog.refine.choice import FAST
from precog.refine.study import StudySettings
from precog.refine.tally import StudyTally
from precog.state import codec_named
from precog.text.chunking.strategy import DEFAULT_MAX_TOKENS, MIN_MAX_TOKENS, chunk_document
from precog.text.document import Document
from precog.text.loaders.plain import paragraphs

__all__ = ["WAYS", "PassageExperiment", "PassageQuestion", "check_chunk_tokens", "summary", "table"]

WAYS = ("in_context", "whole", "chunked")
_CUT_PASSAGES = 8  # whose chunks are kept: questions about one passage follow each other


def check_chunk_tokens(given: int) -> None:
    """Refuses a longest chunk that documents cannot be cut into; 0, for the model's own, is none.

    Raises:
        UsageError: it is too short.
    """
    if given and given < MIN_MAX_TOKENS:
        raise UsageError("--chunk-tokens is too small", given=given, expected=f"at least {MIN_MAX_TOKENS}")


@dataclass(frozen=True)
class PassageQuestion:
    """One item.

    Attributes:
        id: of its own within the experiment.
        question: whose context is the passage.
        facts: kept in the record.
    """

    id: str
    question: Question
    facts: Mapping[str, object] = field(default_factory=dict)


class PassageExperiment:
    """An experiment whose items are questions about passages.

    Args:
        items: that are asked; those about one passage should follow each other, since its state is kept for a while.
        backbone: the model.
        codec: how states are stored.
        chunk_tokens: the longest chunk of ``chunked``; 0 for the model's own, as `precog index` takes it.
        choices: more JSON data that decides the records.
        encoder: of sentences, or where it is; the default one when None.
        free: decode freely instead of grounded.
        study: how states are studied; None where they are only read.
        quality: of the states; those of ``study`` are focused on the nearest parts of the passage, or of the chunk.
    """

    name: str
    settings: Mapping[str, object]

    def __init__(
        self,
        items: Sequence[PassageQuestion],
        backbone: Backbone,
        codec: str,
        chunk_tokens: int,
        choices: Mapping[str, object],
        encoder: Encoder | str | None = None,
        *,
        free: bool = False,
        study: StudySettings | None = None,
        quality: str = FAST,
    ) -> None:
        self.items = items
        self.backbone = backbone
        self.chunk_tokens = chunk_tokens or backbone.card.chunk_tokens or DEFAULT_MAX_TOKENS
        decoding = decoding_of(backbone, free=free)
        self._encoder = encoder_of(encoder)
        self._codec = codec_named(codec)
        self._reader = ParagraphReader(backbone, codec, decoding)
        parts = parts_for(quality, backbone, self._encoder, self._codec, KEPT)
        self._states = PassageStates(backbone, study=study, parts=parts)
        self._chunks = lru_cache(maxsize=_CUT_PASSAGES)(self._cut)
        self.settings = {
            **about(backbone, codec, decoding),
            **self._states.made.about(),
            **about_parts(parts),
            **choices,
            "chunk_tokens": self.chunk_tokens,
            "encoder": self._encoder.fingerprint,
        }

    @property
    def tally(self) -> StudyTally:
        """What became of states that were studied."""
        return self._states.made.tally

    def __len__(self) -> int:
        """Questions."""
        return len(self.items)

    def _cut(self, passage: str) -> tuple[str, ...]:
        document = Document("passage", "text/plain", "", lambda _warn: paragraphs(passage.splitlines(keepends=True)))
        chunks = chunk_document(document, self.backbone.tokenizer, max_tokens=self.chunk_tokens)
        return tuple(chunk.full_text for chunk in chunks)

    def measure(self, number: int) -> Record:
        """One question.

        Returns:
            ``id``, its facts, ``tokens`` of the passage and their ``bin``; ``chunks`` it is cut into and whether the
            best one holds an answer (``chunk_holds_answer``; None where the passage holds none word for word);
            ``said``, way ▸ text, em, f1, tokens_processed, latency_sec.
        """
        item = self.items[number]
        asked, passage = item.question.question, item.question.context
        chunks = self._chunks(passage)
        place, _ = ranked(asked, chunks, self._encoder)[0] if len(chunks) > 1 else (0, 1.0)
        found = chunks[place]
        said = {
            "in_context": self._reader.in_context(asked, passage),
            "whole": self._answer(asked, passage),
        }
        if found.strip() == passage.strip():  # one chunk is the whole passage
            said["chunked"] = said["whole"]
        else:
            said["chunked"] = self._answer(asked, found)
        held = [answer for answer in item.question.answers if answer in passage]
        num_tokens = len(self.backbone.tokenizer.encode(passage))
        return {
            "id": item.id,
            **item.facts,
            "tokens": num_tokens,
            "bin": bin_of(num_tokens),
            "chunks": len(chunks),
            "chunk_holds_answer": any(answer in found for answer in held) if held else None,
            "said": {way: scored(answer, item.question.answers) for way, answer in said.items()},
        }

    def _answer(self, asked: str, text: str) -> Said:
        """An answer from the state of a text."""
        found = self._states.focused(text, self._codec, asked)
        return self._reader.answer_from(found.state, asked, [text], None, [found.is_focused]).after(found)


def summary(records: Sequence[Record]) -> dict[str, object] | None:
    """One row: every way's scores, and what each loses against reading in context; None without records.

    ``gap_whole`` (Theorem 1: 0) and ``gap_chunked`` (retrieval's doing) are F1 less that of ``in_context``, with paired
    intervals; ``agreement`` is the share of answers from the whole state that are word for word those in context.
    """
    if not records:
        return None
    of = {way: _answers(records, way) for way in WAYS}
    held = [record["chunk_holds_answer"] for record in records if record["chunk_holds_answer"] is not None]
    same = [one["text"] == other["text"] for one, other in zip(of["whole"], of["in_context"], strict=True)]
    return {
        "n": len(records),
        "mean_tokens": float(np.mean([cast(int, record["tokens"]) for record in records])),
        **{way: table_row(of[way]) for way in WAYS},
        "gap_whole": f1_gain(of["whole"], of["in_context"]),
        "agreement": float(np.mean(same)),
        "gap_chunked": f1_gain(of["chunked"], of["in_context"]),
        "mean_chunks": float(np.mean([cast(int, record["chunks"]) for record in records])),
        "chunk_holds_answer": float(np.mean([bool(one) for one in held])) if held else None,
    }


def table(records: Sequence[Record], key: str, names: Sequence[str]) -> dict[str, dict[str, object] | None]:
    """A row for each value of a field; None for one that does not occur."""
    return {name: summary([record for record in records if record[key] == name]) for name in names}


def _answers(records: Sequence[Record], way: str) -> list[Scored]:
    return [cast(Mapping[str, Any], record["said"])[way] for record in records]
