"""The model card a program reads: ``precog.json`` beside the weights, strict and hashed where it matters."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from precog.errors import ModelError
from precog.text.chunking.strategy import MIN_MAX_TOKENS

FORMAT_VERSION = 1
FOCUSED = "focused"
"""Key of ``confidence`` that holds what was fitted to answers from focused states."""
MOST_CHUNK_TOKENS = 1 << 16
ENCODE_MODES = ("once", "twice", "twice-reversed")
PAPER_QUESTION_TEMPLATE = "###{question} ###Long Answer:"

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: a name of bytes that are no UTF-8 holds halves of surrogate pairs."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def check_unicode(file: str, **texts: str) -> None:
    """Raises ModelError when a text of a card is not valid Unicode."""
    for key, text in texts.items():
        if not is_unicode(text):
            raise ModelError(f"{file}: {key} is not valid Unicode", given=ascii(text))


def sorted_json(values: Mapping[str, Json]) -> bytes:
    """What a card's checksum is over."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def json_text(values: Mapping[str, Json]) -> str:
    """A card as text; a note that is not valid Unicode (a file's name) is escaped, so that it can be written."""
    text = json.dumps(values, indent=1, ensure_ascii=False)
    return (text if is_unicode(text) else json.dumps(values, indent=1)) + "\n"


@dataclass(frozen=True)
class ModelCard:
    """What a checkpoint says about itself.

    Attributes:
        name: of the model, as people call it.
        tokenizer_sha256: of the tokenizer it was trained with.
        weights_sha256: over the stored tensors, see ``weights_digest``.
        config_sha256: over the text of ``config.json``; empty for a model in memory.
        backbone: the family that can load it.
        boundary_id: the token that opens every segment.
        chunk_template: text around a chunk, holding ``{chunk}`` once.
        question_template: text around a question, holding ``{question}`` once; default of the paper (appendix).
        quantisation: how matrices and embeddings are stored: ``fp32``, ``bf16``, ``int8`` or ``int4:GROUP``.
        decoding: settings of grounded decoding chosen for this checkpoint; the engine checks them.
        chunk_tokens: the longest chunk that its memory bears, by `precog horizon`: what `precog index` cuts documents
            into unless told otherwise. 0 where nobody measured it, and then it is not written. Not part of the
            fingerprint: a state means the same whatever length its chunk has.
        confidence: what makes of this model's scores a probability of being right, by `precog eval abstain`; the
            engine reads it. The same may stand under `FOCUSED` once more, of answers from focused states. Of these
            weights alone: whatever is made of a model goes without. Empty where nobody fitted it, and then it is not
            written. Not part of the fingerprint.
        notes: anything else worth keeping; neither hashed nor read.
        format: version of the folder's layout.
    """

    name: str
    tokenizer_sha256: str
    weights_sha256: str
    config_sha256: str = ""
    backbone: str = "tenns"
    boundary_id: int = 1
    chunk_template: str = "{chunk}"
    question_template: str = PAPER_QUESTION_TEMPLATE
    quantisation: Mapping[str, str] = field(default_factory=lambda: {"matrices": "fp32", "embedding": "fp32"})
    decoding: Mapping[str, Json] = field(default_factory=dict)
    chunk_tokens: int = 0
    confidence: Mapping[str, Json] = field(default_factory=dict)
    notes: Mapping[str, Json] = field(default_factory=dict)
    format: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if self.format != FORMAT_VERSION:
            hint = "install a version of precog-ssm that knows it"
            raise ModelError("precog.json: unknown format", given=self.format, expected=FORMAT_VERSION, hint=hint)
        check_unicode(
            "precog.json",
            name=self.name,
            chunk_template=self.chunk_template,
            question_template=self.question_template,
        )
        for name, slot in (("chunk_template", "{chunk}"), ("question_template", "{question}")):
            if getattr(self, name).count(slot) != 1:
                raise ModelError(f"precog.json: {name} is wrong", given=getattr(self, name), expected=f"{slot} once")
        if self.chunk_tokens and not MIN_MAX_TOKENS <= self.chunk_tokens <= MOST_CHUNK_TOKENS:
            expected = f"{MIN_MAX_TOKENS} to {MOST_CHUNK_TOKENS}"
            raise ModelError("precog.json: chunk_tokens is out of range", given=self.chunk_tokens, expected=expected)

    @classmethod
    def from_json(cls, text: str) -> "ModelCard":
        """A card from the text of ``precog.json``.

        Raises:
            ModelError: it is no JSON object, or keys are unknown, missing or of another type.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelError("precog.json is damaged", given=str(error)) from error
        if not isinstance(values, dict):
            raise ModelError("precog.json is no JSON object", given=type(values).__name__)
        kinds: dict[str, object] = {entry.name: entry.type for entry in dataclasses.fields(cls)}
        kinds["checksum"] = str
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise ModelError("precog.json: unknown keys", given=", ".join(unknown), expected=", ".join(sorted(kinds)))
        for key, value in values.items():
            kind: type = str if kinds[key] is str else int if kinds[key] is int else dict
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ModelError(f"precog.json: {key} has the wrong type", given=value, expected=kind.__name__)
        missing = sorted({"name", "tokenizer_sha256", "weights_sha256", "config_sha256", "checksum"} - set(values))
        if missing:
            raise ModelError("precog.json: keys are missing", given=", ".join(missing))
        card = cls(**{key: value for key, value in values.items() if key != "checksum"})
        if values["checksum"] != card.checksum:
            hint = "install the model again, or save it anew with what should be different"
            raise ModelError("precog.json was changed after it was saved", given=values["checksum"], hint=hint)
        return card

    @property
    def checksum(self) -> str:
        """Hex SHA-256 over everything else: a template or threshold changed by hand is noticed."""
        return sha256(sorted_json(self._values())).hexdigest()

    def to_json(self) -> str:
        """The text of ``precog.json``, defaults written out."""
        return json_text({**self._values(), "checksum": self.checksum})

    def _values(self) -> dict[str, Json]:
        values = dataclasses.asdict(self)
        for key in ("chunk_tokens", "confidence"):  # older cards have no such keys, and their checksums hold
            if not values[key]:
                del values[key]
        return values


def fingerprint(card: ModelCard, config: Mapping[str, object], encode_mode: str) -> str:
    """Names everything that decides what a state means: hex SHA-256.

    Weights, config, tokenizer, boundary, chunk-side template and encode mode count; name, question template, device
    and compute dtype do not.

    Raises:
        ModelError: unknown encode mode.
    """
    if encode_mode not in ENCODE_MODES:
        raise ModelError("no such encode mode", given=encode_mode, expected=", ".join(ENCODE_MODES))
    parts = {
        "backbone": card.backbone,
        "weights": card.weights_sha256,
        "config": dict(config),
        "tokenizer": card.tokenizer_sha256,
        "boundary_id": card.boundary_id,
        "chunk_template": card.chunk_template,
        "encode": encode_mode,
    }
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
