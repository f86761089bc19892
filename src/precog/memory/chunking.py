"""Utterances ▸ chunks: what is encoded, routed and deposited as one."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from precog.errors import UsageError
from precog.memory.header import dated_header, fitting_header
from precog.memory.moment import in_words, resolve
from precog.memory.utterance import Utterance
from precog.text.chunking.strategy import Strategy, chunk_document
from precog.text.document import Document, Draft
from precog.text.tokenizer import Tokenizer

MIN_CHUNK_TOKENS = 96  # time stamp and day take up to 43 of them, and as many must be left for words
_MIN_TEXT_TOKENS = 16
_DAY_TOKENS = 16  # left in each part of a turn that speaks of relative times, for the day that one of them means


@dataclass(frozen=True)
class MemoryChunk:
    """One turn, or one part of a long turn.

    Attributes:
        utterance: with the part's text.
        header: what the model reads before the text; see `header_of` and `dated_header`.
        part: its number within the turn, from 0.
        num_parts: how many the turn has.
        resolved: relative times in its text with the dates they mean, such as ``("yesterday", "2023-05-07")``.
    """

    utterance: Utterance
    header: str
    part: int
    num_parts: int
    resolved: tuple[tuple[str, str], ...]

    def read_text(self) -> str:
        """What the model reads: header and text, one text."""
        return self.header + self.utterance.text

    def key_text(self) -> str:
        """What is searched: the speaker, the text, and the dates its relative times mean, in words."""
        speaker = f"{self.utterance.speaker}: " if self.utterance.speaker else ""
        dates = "; ".join(f"{phrase}: {in_words(iso)}" for phrase, iso in self.resolved)
        return speaker + self.utterance.text + (f" ({dates})" if dates else "")


def chunks_of(utterances: Iterable[Utterance], tokenizer: Tokenizer, *, max_tokens: int) -> Iterator[MemoryChunk]:
    """The chunks of a conversation in order; a turn that is too long is cut between sentences, then words.

    Args:
        utterances: read one at a time.
        tokenizer: counts.
        max_tokens: cap on the tokens of `MemoryChunk.read_text`, without the boundary.

    Raises:
        UsageError: the cap is under 96 tokens.
    """
    if max_tokens < MIN_CHUNK_TOKENS:
        raise UsageError("the chunk size is too small", given=max_tokens, expected=f"at least {MIN_CHUNK_TOKENS}")
    return (chunk for utterance in utterances for chunk in _chunks(utterance, tokenizer, max_tokens))


def told(chunks: Iterable[MemoryChunk], show: Callable[[int], None]) -> Iterator[MemoryChunk]:
    """The same chunks; ``show`` is told after each turn how many are through."""
    num_turns = 0
    for chunk in chunks:
        yield chunk
        if chunk.part == chunk.num_parts - 1:
            num_turns += 1
            show(num_turns)


def _chunks(utterance: Utterance, tokenizer: Tokenizer, max_tokens: int) -> Iterator[MemoryChunk]:
    header = fitting_header(utterance, tokenizer, max_tokens // 2)
    may_be_dated = bool(resolve(utterance.text, utterance.time))
    texts = _parts(utterance.text, header, tokenizer, max_tokens, may_be_dated=may_be_dated)
    for number, text in enumerate(texts):
        part = dataclasses.replace(utterance, text=text)
        resolved = resolve(text, utterance.time)
        dated = dated_header(header, resolved, text, tokenizer, max_tokens)
        yield MemoryChunk(part, dated, number, len(texts), resolved)


def _parts(text: str, header: str, tokenizer: Tokenizer, max_tokens: int, *, may_be_dated: bool) -> list[str]:
    # every token stands for at least one byte, so a short text needs no count of its own
    if len((header + text).encode()) < max_tokens or len(tokenizer.encode(header + text)) <= max_tokens:
        return [text]
    room = max_tokens - len(tokenizer.encode(header)) - (_DAY_TOKENS if may_be_dated else 0)
    while True:
        turn = Document("turn", "text/plain", "", lambda _warn: iter([Draft(text)]))
        parts = [c.text for c in chunk_document(turn, tokenizer, strategy=Strategy.SENTENCE, max_tokens=room)]
        excess = max(len(tokenizer.encode(header + part)) for part in parts) - max_tokens
        if excess <= 0:  # at the seam of header and text a token more is possible
            return parts
        room -= excess
        assert room >= _MIN_TEXT_TOKENS, "the header takes at most half of the chunk"
