"""The tokenizer of a transformers folder: ``tokenizer.json``, read so that no text is lost and no text is an order.

Two kinds spell every text: byte-level pieces (GPT-2's alphabet of 256 characters, as GPT-NeoX has it), and pieces with
``▁`` for a space and one piece for each byte (as Llama has it). Others are refused. Names of control tokens in a text
are text. Nothing is added to a text: what the model's texts open with is ``start_ids``.
"""

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer as Pieces

from precog.backbones.card import Json, is_unicode
from precog.errors import InputError, ModelError
from precog.text.tokenizer import Span

_SPACE_MARK = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_MOST_IDS = 1 << 22
_PROBE = "Ab, it's 5.1 × ü 日本 🦜\n\tx  y"


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's character of each byte: itself where it prints, else the next of those from U+0100 on."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in prints]
    return {chr(byte): byte for byte in prints} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()
_LETTER_OF = {byte: letter for letter, byte in _ALPHABET.items()}


class FolderTokenizer:
    """The pieces of ``tokenizer.json`` and the folder's word on which of them open and end a text.

    `decode` gives back what `encode` was given, unless the file has a normaliser that joins characters (NFC), which
    then has its way, as in training; and where the file puts a space before every text, one opening space is dropped.

    Args:
        folder: of the model.
        config: of ``config.json``, asked for ids that the tokenizer's own files do not name.

    Raises:
        ModelError: files are missing or damaged, or the tokenizer loses text, or nothing ends a text.
    """

    def __init__(self, folder: Path, config: dict[str, Json]) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            hint = "make one: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers"
            raise ModelError("this model has no tokenizer.json", given=folder, hint=hint)
        try:
            raw = path.read_bytes()
            self._pieces = Pieces.from_buffer(raw)
            described = json.loads(raw)
        except Exception as error:  # the library has no class of errors of its own
            raise ModelError(f"the tokenizer cannot be read: {_line(error)}", given=path) from error
        self._pieces.no_truncation()
        self._pieces.no_padding()
        self._pieces.encode_special_tokens = True
        self._bytes_of_all(described, path)
        told = _read_object(folder / "tokenizer_config.json")
        named = _read_object(folder / "special_tokens_map.json") | told
        begin, end = (self._special_id(named, config, name) for name in ("bos", "eos"))
        if end is None:
            expected = "an eos_token in tokenizer_config.json that tokenizer.json knows"
            raise ModelError("the tokenizer has no token that ends a text", given=folder, expected=expected)
        self._controls |= {end, *([] if begin is None else [begin])}
        for token_id in self._controls:
            self._bytes[token_id] = b""
        self._boundary, self._eos = end if begin is None else begin, end
        self._num_bytes = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self._opening_space = self._joined(self.encode("a")).startswith(b" ")
        self._start_ids = self._starts(told.get("add_bos_token"), begin)
        self._digest = sha256(raw + json.dumps([self._boundary, self._eos]).encode()).hexdigest()
        kept = self.decode(self.encode(_PROBE))
        if kept != _PROBE:
            given, expected = ascii(kept), ascii(_PROBE)
            raise ModelError("the tokenizer does not keep the text it reads", given=given, expected=expected)

    def _bytes_of_all(self, described: dict[str, Json], path: Path) -> None:
        vocabulary: dict[str, int] = self._pieces.get_vocab(with_added_tokens=True)
        added = self._pieces.get_added_tokens_decoder()
        largest = max(vocabulary.values(), default=-1)
        if largest >= _MOST_IDS:
            raise ModelError("the tokenizer has an id beyond all reason", given=largest, expected=f"below {_MOST_IDS}")
        self._bytes = [b""] * (largest + 1)
        wording = {key: described.get(key) for key in ("decoder", "pre_tokenizer", "normalizer")}
        self._byte_level = '"ByteLevel"' in json.dumps(wording)
        letters = [_LETTER_OF[byte] if self._byte_level else f"<0x{byte:02X}>" for byte in range(256)]
        if not vocabulary or any(letter not in vocabulary for letter in letters):
            expected = "byte-level pieces, or pieces with one for each of the 256 bytes"
            raise ModelError("this tokenizer cannot spell every text", given=path, expected=expected)
        self._byte_ids = [vocabulary[letter] for letter in letters]
        self._controls = {
            token_id for token_id, token in added.items() if token.special and token_id not in self._byte_ids
        }
        for piece, token_id in vocabulary.items():
            if token_id not in self._controls:
                plain = self._byte_level and token_id not in added
                self._bytes[token_id] = _alphabet_bytes(piece) if plain else self._marked_bytes(piece)

    def _marked_bytes(self, piece: str) -> bytes:
        byte = None if self._byte_level else _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE_MARK, " ").encode()

    def _special_id(self, named: dict[str, Json], config: dict[str, Json], name: str) -> int | None:
        token = named.get(f"{name}_token")
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str):
            found: int | None = self._pieces.token_to_id(content)
            return found
        given = config.get(f"{name}_token_id")
        token_id = given[0] if isinstance(given, list) and given else given
        # an id that the configuration has by default is no control token unless the tokenizer says so
        return token_id if isinstance(token_id, int) and token_id in self._controls else None

    def _starts(self, add_begin: Json, begin: int | None) -> tuple[int, ...]:
        if isinstance(add_begin, bool):
            return (begin,) if add_begin and begin is not None else ()
        whole, plain = (self._pieces.encode("a", add_special_tokens=added).ids for added in (True, False))
        for start in range(len(whole) - len(plain) + 1):
            if whole[start : start + len(plain)] == plain:
                return tuple(whole[:start])
        return ()

    @property
    def start_ids(self) -> tuple[int, ...]:
        """What the model's texts open with, such as ``<s>``; empty where they open with nothing."""
        return self._start_ids

    @property
    def boundary_id(self) -> int:
        """The id that opens a text, or the one that ends it where none does."""
        return self._boundary

    @property
    def eos_id(self) -> int:
        """The id that ends a text."""
        return self._eos

    @property
    def vocab_size(self) -> int:
        """Ids up to the largest; the model may score more."""
        return len(self._bytes)

    @property
    def sha256(self) -> str:
        """Hex digest of the file and of the ids that open and end a text."""
        return self._digest

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``: nothing is added, and "<s>" in the text is text.

        Raises:
            InputError: the text holds half of a surrogate pair, which no encoding can carry.
        """
        return self._encode(text)[0]

    def _encode(self, text: str) -> tuple[list[int], list[Span]]:
        if not is_unicode(text):
            raise InputError("the text is not valid Unicode", given="half a surrogate pair")
        if not text:
            return [], []
        encoding = self._pieces.encode(text, add_special_tokens=False)
        ids: list[int] = encoding.ids
        spans: list[Span] = encoding.offsets
        if self._controls.isdisjoint(ids):
            return ids, spans
        # some vocabularies hold a control token's name as a piece like any other: it is spelled in bytes instead
        spelled = [self._spelled(token_id) if token_id in self._controls else [token_id] for token_id in ids]
        repeated = [span for part, span in zip(spelled, spans, strict=True) for _ in part]
        return [token_id for part in spelled for token_id in part], repeated

    def _spelled(self, token_id: int) -> list[int]:
        return [self._byte_ids[byte] for byte in (self._pieces.id_to_token(token_id) or "").encode()]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of ``text`` and the span ``(start, end)`` of characters of ``text`` that each stands for.

        Starts and ends never decrease and the spans cover the text. The tokens of a character spelled in bytes all
        have that character's span; an opening space that is not in the text has ``(0, 0)``.
        """
        ids, spans = self._encode(text)
        if not ids:
            return [], []
        raw, joined = text.encode(), self._joined(ids)
        if joined == raw:
            return ids, self._spans(ids, text, raw, 0)
        if joined == b" " + raw:
            return ids, self._spans(ids, text, raw, 1)
        return ids, _covering(spans, len(text))

    def _spans(self, ids: list[int], text: str, raw: bytes, added: int) -> list[Span]:
        ends = np.maximum(np.cumsum(self._num_bytes[ids]) - added, 0)
        starts = np.concatenate(([0], ends[:-1]))
        if not text.isascii():
            char_of_byte = np.cumsum((np.frombuffer(raw, dtype=np.uint8) & 0xC0) != 0x80) - 1
            empty = ends == starts
            last = np.where(ends > 0, char_of_byte[np.maximum(ends, 1) - 1] + 1, 0)
            first = char_of_byte[np.minimum(starts, len(raw) - 1)]
            starts, ends = np.where(empty, last, first), last
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of one whole segment; control ids are silent, bytes that are no UTF-8 become U+FFFD."""
        raw = self._joined(ids)
        return (raw.removeprefix(b" ") if self._opening_space else raw).decode(errors="replace")

    def _joined(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self._bytes.__getitem__, ids))

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for inside a segment, a leading space included; empty for control ids."""
        return self._bytes[token_id]

    def starts_word(self, token_id: int) -> bool:
        """Whether the token opens with a space."""
        return self._bytes[token_id].startswith(b" ")


def _alphabet_bytes(piece: str) -> bytes:
    known = all(letter in _ALPHABET for letter in piece)
    return bytes(_ALPHABET[letter] for letter in piece) if known else piece.encode()


def _covering(spans: list[Span], length: int) -> list[Span]:
    """Spans without gaps: what no token claims (a mark that a normaliser joined) belongs to the token before it."""
    starts = [start for start, _ in spans]
    first = next((i for i, (start, end) in enumerate(spans) if end > start), 0)
    starts[: first + 1] = [0] * (first + 1)
    made: list[Span] = []
    following = (length, length)
    for start, end in zip(reversed(starts), (end for _, end in reversed(spans)), strict=True):
        start = min(start, following[0])
        end = following[1] if start == following[0] and made else max(min(end, following[1]), following[0])
        following = (start, end)
        made.append(following)
    return made[::-1]


def _read_object(path: Path) -> dict[str, Json]:
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} is damaged: {_line(error)}", given=path) from error
    if not isinstance(values, dict):
        raise ModelError(f"{path.name} is no JSON object", given=path)
    return values


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
