"""Text ↔ token ids: the `Tokenizer` protocol and the Mistral-7B-v0.1 one.

A tokenizer knows nothing of templates, segments or models: it never adds a boundary, and whoever joins segments does.
"""

import codecs
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from precog.errors import InputError, ModelError

MISTRAL_FILE = Path(__file__).parent / "data" / "mistral-7b-v0.1.model"
MISTRAL_SHA256 = "dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055"

Span = tuple[int, int]

_SPACE_MARK = "\u2581"  # how sentencepiece writes a space inside a piece
_SPACE_MARK_BYTES = _SPACE_MARK.encode()


@runtime_checkable
class Tokenizer(Protocol):
    """What the rest of the project asks of a tokenizer; token ids are plain integers in ``[0, vocab_size)``."""

    @property
    def boundary_id(self) -> int:
        """The id that opens every segment; no text ever encodes to it."""
        ...

    @property
    def eos_id(self) -> int:
        """The id that ends an answer; no text ever encodes to it."""
        ...

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of everything that decides ids: part of a model's fingerprint."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, without boundary and without control ids."""
        ...

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of ``text`` and, for each, the characters of ``text`` it stands for."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of one whole segment."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for inside a segment, a leading space included; empty for control ids."""
        ...


class MistralTokenizer:
    """The 32,000 pieces of Mistral-7B-v0.1, lossless: ``decode(encode(text)) == text`` for every Unicode text.

    The sentencepiece file opens every text with a space that `decode` drops again, keeps white space as it is and
    spells what it has no piece for in UTF-8 bytes. It would turn U+2581, its own mark for a space, into a space: here
    that character is spelled in bytes, too.

    Raises:
        ModelError: the file is missing or is not the published one.
    """

    boundary_id = 1
    eos_id = 2
    vocab_size = 32_000
    sha256 = MISTRAL_SHA256

    def __init__(self, path: Path = MISTRAL_FILE) -> None:
        try:
            model = path.read_bytes()
        except OSError as error:
            raise ModelError("the tokenizer file cannot be read", given=path, hint=str(error.strerror)) from error
        digest = sha256(model).hexdigest()
        if digest != MISTRAL_SHA256:
            raise ModelError(
                f"the tokenizer file {path} is damaged or another one",
                given=f"sha256 {digest}",
                expected=MISTRAL_SHA256,
                hint="reinstall the package",
            )
        self._pieces = SentencePieceProcessor(model_proto=model)
        self._bytes = tuple(self._bytes_of(token_id) for token_id in range(self.vocab_size))
        self._num_bytes = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self._byte_ids = tuple(self._pieces.piece_to_id(f"<0x{byte:02X}>") for byte in _SPACE_MARK_BYTES)
        self.word_starts: NDArray[np.bool_] = np.array([piece.startswith(b" ") for piece in self._bytes])
        self.word_starts.flags.writeable = False

    def _bytes_of(self, token_id: int) -> bytes:
        pieces = self._pieces
        if pieces.is_control(token_id):
            return b""
        if pieces.is_unknown(token_id):
            return "\ufffd".encode()
        piece: str = pieces.id_to_piece(token_id)
        if pieces.is_byte(token_id):
            return bytes([int(piece[1:-1], 16)])
        return piece.replace(_SPACE_MARK, " ").encode()

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``: no boundary added, and "<s>" in the text is three ordinary pieces.

        Raises:
            InputError: the text holds half of a surrogate pair, which no encoding can carry.
        """
        if _SPACE_MARK in text:
            return self._encode_with_marks(text)
        try:
            ids: list[int] = self._pieces.encode(text)
        except (RuntimeError, UnicodeEncodeError) as error:
            raise _unencodable(text) from error
        return ids

    def _encode_with_marks(self, text: str) -> list[int]:
        first, *rest = text.split(_SPACE_MARK)
        ids = self.encode(first) if first else self.encode("\n")[:1]
        for part in rest:
            ids.extend(self._byte_ids)
            # No piece contains a line feed, so it keeps the opening space away from the part: both are cut off again.
            ids.extend(self.encode("\n" + part)[2:])
        return ids

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of ``text`` and the span ``(start, end)`` of characters of ``text`` that each stands for.

        Starts and ends never decrease and the spans cover the text. The tokens of a character spelled in bytes all
        have that character's span; an opening space that is not in the text has ``(0, 0)``.
        """
        ids = self.encode(text)
        if not ids:
            return ids, []
        ends = np.cumsum(self._num_bytes[ids]) - 1  # the opening space is no byte of the text
        starts = np.concatenate(([0], ends[:-1]))
        if not text.isascii():
            raw = np.frombuffer(text.encode(), dtype=np.uint8)
            char_of_byte = np.cumsum((raw & 0xC0) != 0x80) - 1
            empty = ends == starts
            ends = np.where(empty, 0, char_of_byte[ends - 1] + 1)
            starts = np.where(empty, 0, char_of_byte[np.minimum(starts, len(raw) - 1)])
        return ids, list(zip(starts.tolist(), ends.tolist(), strict=True))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of one whole segment; control ids are silent, bytes that are no UTF-8 become U+FFFD."""
        raw = b"".join(map(self._bytes.__getitem__, ids))
        return raw.removeprefix(b" ").decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for inside a segment, a leading space included; empty for control ids."""
        return self._bytes[token_id]


class StreamDecoder:
    """Turns ids that arrive one by one into text, never cutting a character in half.

    Args:
        tokenizer: whose ids they are.
        opens_segment: whether the first id is the first of a segment, whose opening space is not part of the text.
    """

    def __init__(self, tokenizer: Tokenizer, *, opens_segment: bool = True) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._drop_space = opens_segment

    def push(self, ids: int | Iterable[int]) -> str:
        """The text that these ids complete; empty while a character is still unfinished."""
        raw = b"".join(map(self._tokenizer.token_bytes, [ids] if isinstance(ids, int) else ids))
        if self._drop_space and raw:
            self._drop_space = False
            raw = raw.removeprefix(b" ")
        return self._decoder.decode(raw)

    def finish(self) -> str:
        """What is left at the end: U+FFFD for an unfinished character, otherwise nothing."""
        return self._decoder.decode(b"", final=True)


@cache
def load_mistral_tokenizer() -> MistralTokenizer:
    """The tokenizer of the vendored file, read once per process (it is immutable)."""
    return MistralTokenizer()


def _unencodable(text: str) -> InputError:
    position = next((index for index, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
    return InputError("the text is not valid Unicode", given=f"half a surrogate pair at character {position}")
