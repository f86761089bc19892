"""The vocabulary of a GGUF file, cut into tokens by llama.cpp, as a tokenizer of the project.

Control tokens are never read out of text, and pieces are the very bytes of the text, so that spans of characters follow
from their lengths.
"""

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precog.backbones.gguf.model import LlamaModel
from precog.errors import InputError, ModelError
from precog.text.tokenizer import Span

_PIECES, _PAIRS, _WORLD = 1, 2, 5  # kinds of vocabulary that spell every text
_KINDS = {_PIECES: "SPM", _PAIRS: "BPE", _WORLD: "RWKV"}
_SPACE_MARK = "\u2581"  # how pieces write a space
_PROBE = (
    "".join(map(chr, range(32, 127)))
    + "\t\n\r\n\n  two  spaces\u00a0\u00df\u00e9e\u0301\u0416\u05d0\u0639\u0e01\u4e2d\ufb01\u2028"
    + "\U0001f600\U0001f9d1\u200d\U0001f680 end"
)
_UTF8_BYTES = {*range(0xC0), *range(0xC2, 0xF5)}


class GgufTokenizer:
    """Tokens of a model's own vocabulary; ``decode(encode(text)) == text``, but for U+2581, which pieces cannot tell
    from a space.

    Args:
        model: whose vocabulary.
        sha256: digest of the file.

    Attributes:
        boundary_id: what opens texts, or else what ends them.
        eos_id: what ends texts: a control token, so that no text encodes to it.
        opens: ids that every text opens with, by the file's word.

    Raises:
        ModelError: a kind of vocabulary that does not keep texts as they are, or one without a control token.
    """

    def __init__(self, model: LlamaModel, sha256: str) -> None:
        self._model, self._functions, self.sha256 = model, model.library.functions, sha256
        functions, vocab = self._functions, model.vocab
        self._kind = int(functions.llama_vocab_type(vocab))
        if self._kind not in _KINDS:
            expected = ", ".join(_KINDS.values())
            raise ModelError("this kind of vocabulary is not supported", given=model.path, expected=expected)
        self.vocab_size = int(functions.llama_vocab_n_tokens(vocab))
        controls = [token for token in range(self.vocab_size) if functions.llama_vocab_is_control(vocab, token)]
        if not controls:
            raise ModelError("this vocabulary has no token that ends a text", given=model.path)
        self._controls = frozenset(controls)
        named = [int(functions.llama_vocab_eos(vocab)), int(functions.llama_vocab_eot(vocab)), controls[0]]
        self.eos_id = next(token for token in named if token in self._controls)
        first = int(functions.llama_vocab_bos(vocab))
        self.boundary_id = first if first in self._controls else self.eos_id
        opened = functions.llama_vocab_get_add_bos(vocab) and first in self._controls
        self.opens: tuple[int, ...] = (first,) if opened else ()
        self._bytes = tuple(self._bytes_of(token) for token in range(self.vocab_size))
        self._check_spells_bytes()
        self._num_bytes = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self._prefix = b""
        try:
            self._prefix = b" " if self._joined(self.encode("a")) == b" a" else b""
            kept = self.decode(self.encode(_PROBE)) == _PROBE
        except InputError:
            kept = False
        if not kept:
            hint = "use its checkpoint with transformers: pip install 'precog-ssm[hf]'"
            raise ModelError("this vocabulary does not keep texts as they are", given=model.path, hint=hint)

    def _check_spells_bytes(self) -> None:
        """Refuses a vocabulary that lacks a byte: llama.cpp would end the process over a text that needs it."""
        known = {piece[0] for piece in self._bytes if len(piece) == 1}
        if self._kind == _PIECES:
            vocab, text = self._model.vocab, self._functions.llama_vocab_get_text
            names = {bytes(text(vocab, token)) for token in range(self.vocab_size)}
            known = {byte for byte in range(256) if b"<0x%02X>" % byte in names or bytes([byte]) in names} & known
        missing = sorted(_UTF8_BYTES - known)
        if missing:
            given = f"{len(missing)} bytes are missing, the first is {missing[0]:#04x}"
            raise ModelError(f"the vocabulary of {self._model.path} cannot spell every text", given=given)

    def _bytes_of(self, token_id: int) -> bytes:
        if token_id in self._controls:
            return b""
        room = 256
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = self._functions.llama_token_to_piece(self._model.vocab, token_id, buffer, room, 0, False)
            if size >= 0:
                return buffer.raw[:size]
            room = -size

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``: nothing added, and "<s>" in the text is ordinary text.

        Raises:
            InputError: the text holds half of a surrogate pair, which no encoding can carry.
        """
        if self._kind == _PIECES:
            text = text.replace(_SPACE_MARK, " ")
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            given = f"half a surrogate pair at character {error.start}"
            raise InputError("the text is not valid Unicode", given=given) from error
        ids = self._cut(raw)
        if self._kind == _WORLD and not self._controls.isdisjoint(ids):  # it reads control tokens out of text
            return self._without_controls(text)
        return ids

    def _cut(self, raw: bytes) -> list[int]:
        room = len(raw) + 8
        ids: NDArray[np.int32] = np.empty(room, dtype=np.int32)
        size = self._functions.llama_tokenize(self._model.vocab, raw, len(raw), ids.ctypes.data, room, False, False)
        if size < 0:
            raise InputError("llama.cpp cannot cut this text into tokens", given=f"{len(raw)} bytes")
        found: list[int] = ids[:size].tolist()
        return found

    def _without_controls(self, text: str) -> list[int]:
        """Ids of a text in which names of control tokens are spelled: cut in halves until there is none."""
        ids = self._cut(text.encode())
        if self._controls.isdisjoint(ids) or len(text) < 2:
            return [token for token in ids if token not in self._controls]
        middle = len(text) // 2
        return self._without_controls(text[:middle]) + self._without_controls(text[middle:])

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of ``text`` and the span ``(start, end)`` of characters of ``text`` that each stands for.

        Starts and ends never decrease and the spans cover the text. The tokens of a character spelled in bytes all have
        that character's span; an opening space that is not in the text has ``(0, 0)``.

        Raises:
            InputError: the text is not valid Unicode, or the vocabulary cannot spell it.
        """
        ids = self.encode(text)
        read = text.replace(_SPACE_MARK, " ") if self._kind == _PIECES else text
        raw = read.encode()
        if not ids and not raw:
            return [], []
        if self._joined(ids) != self._prefix + raw:
            raise InputError("the model's vocabulary cannot spell this text", given=f"{len(text)} characters")
        ends = np.maximum(np.cumsum(self._num_bytes[ids]) - len(self._prefix), 0)
        starts = np.concatenate(([0], ends[:-1]))
        char_of_byte = np.cumsum((np.frombuffer(raw, dtype=np.uint8) & 0xC0) != 0x80) - 1
        empty = ends == starts
        last = np.where(empty, 0, char_of_byte[np.maximum(ends - 1, 0)] + 1)
        first = np.where(empty, 0, char_of_byte[np.minimum(starts, len(raw) - 1)])
        return ids, list(zip(first.tolist(), last.tolist(), strict=True))

    def _joined(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self._bytes.__getitem__, ids))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of one whole segment; control ids are silent, bytes that are no UTF-8 become U+FFFD."""
        return self._joined(ids).removeprefix(self._prefix).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for inside a segment, a leading space included; empty for control ids."""
        return self._bytes[token_id]

    def starts_word(self, token_id: int) -> bool:
        """Whether the token opens with a space."""
        return self._bytes[token_id].startswith(b" ")
