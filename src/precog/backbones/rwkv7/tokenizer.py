"""The World vocabulary of RWKV: 65,529 byte strings, the longest that fits taken each time, and 0 between texts."""

from ast import literal_eval
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precog.errors import InputError, ModelError
from precog.text.tokenizer import Span

NUM_TOKENS = 65_530
END_ID = 0
KEY_BYTES = 4  # pieces are looked up by the lengths of those that share so many bytes
_QUOTES = ("'", '"')
_SHORT = tuple(range(KEY_BYTES - 1, 0, -1))


class WorldTokenizer:
    """Lossless for every text: all 256 bytes are tokens, nothing is normalised and no space is added.

    Id 0 stands for no text; it is between the texts the models were trained on, and so opens one and ends one.

    Args:
        path: the vocabulary file: a line for each token with its id, a Python literal of text or bytes, and its length.

    Raises:
        ModelError: the file cannot be read, or is not this vocabulary.
    """

    boundary_id = END_ID
    eos_id = END_ID
    vocab_size = NUM_TOKENS

    def __init__(self, path: Path) -> None:
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ModelError("the RWKV vocabulary cannot be read", given=path, hint=str(error.strerror)) from error
        self.sha256 = sha256(raw).hexdigest()
        self._bytes = _parse(raw, path)
        self._ids = {piece: token_id for token_id, piece in enumerate(self._bytes) if piece}
        if len(self._ids) != NUM_TOKENS - 1 or any(bytes([byte]) not in self._ids for byte in range(256)):
            raise ModelError("the RWKV vocabulary is damaged", given=path, hint="install the package rwkv again")
        lengths: dict[bytes, set[int]] = {}
        for piece in self._ids:
            lengths.setdefault(piece[:KEY_BYTES], set()).add(len(piece))
        self._lengths = {  # of the pieces that begin with these bytes, and of shorter ones
            start: (*sorted(found, reverse=True), *_SHORT)
            for start, found in lengths.items()
            if len(start) == KEY_BYTES
        }
        self._num_bytes = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self.word_starts: NDArray[np.bool_] = np.array([piece.startswith(b" ") for piece in self._bytes])
        self.word_starts.flags.writeable = False

    def encode(self, text: str) -> list[int]:
        """The ids of a text: the longest token that fits, from left to right, in UTF-8.

        Raises:
            InputError: the text holds half of a surrogate pair, which no encoding can carry.
        """
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            given = f"half a surrogate pair at character {error.start}"
            raise InputError("the text is not valid Unicode", given=given) from error
        ids, lengths, found = self._ids, self._lengths, []
        position = 0
        while position < len(raw):
            for length in lengths.get(raw[position : position + KEY_BYTES], _SHORT):
                piece = raw[position : position + length]  # shorter at the end of the text: then it is what is left
                if piece in ids:
                    break
            found.append(ids[piece])
            position += len(piece)
        return found

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a text and the span ``(start, end)`` of its characters that each stands for.

        Starts and ends never decrease and the spans cover the text; tokens that share a character all have it.
        """
        ids = self.encode(text)
        if not ids:
            return ids, []
        ends = np.cumsum(self._num_bytes[ids])
        starts = np.concatenate(([0], ends[:-1]))
        if not text.isascii():
            raw = np.frombuffer(text.encode(), dtype=np.uint8)
            char_of_byte = np.cumsum((raw & 0xC0) != 0x80) - 1
            starts, ends = char_of_byte[starts], char_of_byte[ends - 1] + 1
        return ids, list(zip(starts.tolist(), ends.tolist(), strict=True))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; 0 is silent, bytes that are no UTF-8 become U+FFFD."""
        return b"".join(map(self._bytes.__getitem__, ids)).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for, maybe a part of a character; empty for 0."""
        return self._bytes[token_id]

    def starts_word(self, token_id: int) -> bool:
        """Whether the token opens with a space (`word_starts` is the same as a Boolean array over all ids)."""
        return bool(self.word_starts[token_id])


@cache
def load_world_tokenizer(path: Path) -> WorldTokenizer:
    """The tokenizer of a vocabulary file, read once per process (it is immutable)."""
    return WorldTokenizer(path)


def _parse(raw: bytes, path: Path) -> tuple[bytes, ...]:
    pieces = [b""] * NUM_TOKENS
    try:
        for line in raw.decode().split("\n"):  # not splitlines: it would cut at other characters, too
            if line.strip():
                token_id, rest = line.split(" ", 1)
                literal, length = rest.rsplit(" ", 1)
                value = literal[1:-1] if literal[0] in _QUOTES and "\\" not in literal else literal_eval(literal)
                piece = value.encode() if isinstance(value, str) else value
                if not isinstance(piece, bytes) or len(piece) != int(length) or not piece or pieces[int(token_id)]:
                    raise ValueError(line)
                pieces[int(token_id)] = piece
    except (ValueError, SyntaxError, IndexError, RecursionError) as error:
        hint = "install the package rwkv again"
        raise ModelError("the RWKV vocabulary is damaged", given=path, hint=hint) from error
    return tuple(pieces)
