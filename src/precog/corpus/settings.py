"""What a corpus was made with: written down once, used by every later command, refused when contradicted."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from precog.errors import DamagedCorpusError, UsageError
from precog.records import RecordForm, settings_from
from precog.refine.choice import FAST, STUDY, StudyLimits, encode_mode_for, quality_of
from precog.store.remedy import reindex_command

DEFAULT_CHUNK_TOKENS = 256  # for a model whose card says nothing
DEFAULT_KEYS = "title"  # of a new corpus

_FLAGS = {
    "quality": "--quality",
    "encode_mode": "--encode",
    "codec": "--codec",
    "layers": "--layers",
    "chunk_tokens": "--chunk-tokens",
    "overlap": "--overlap",
    "strategy": "--strategy",
    "study_steps": "--study-steps",
    "study_seconds": "--study-seconds",
    "keys": "--keys",
}
REINDEXED_FLAGS = {
    key: _FLAGS[key] for key in ("quality", "encode_mode", "codec", "layers", "study_steps", "study_seconds", "keys")
}
"""What `precog reindex` can change; the chunks stay as they are."""


@dataclass(frozen=True)
class CorpusSettings:
    """How documents become states and keys.

    Attributes:
        model: folder or name of the model that made the states; where to look for it when no other is named.
        encoder: where the sentence encoder was found; "" for the default one.
        encoder_fingerprint: of the sentence encoder; another one is refused.
        encode_mode: ``once``, ``twice`` or ``twice-reversed``; part of the states' fingerprint.
        codec: how states are kept: ``fp32``, ``fp16``, ``int8``, ``int8-rot``, ``int4`` or ``int4-rot``.
        layers: subset of layers whose states are kept.
        chunk_tokens: cap on the tokens of a chunk, as it was when the corpus was made: another model's own length, or a
            later default, changes nothing.
        overlap: tokens that a chunk repeats of the one before.
        strategy: how documents are parted.
        encoding_dtype: compute dtype the states were made with.
        template: what stood around chunks and questions in place of the model's own, as JSON; "" for nothing.
        quality: ``fast`` or ``twice``, as the encode mode says, or ``study``.
        study_steps: most gradient steps of a state that is studied; 0 for none.
        study_seconds: what the steps of a chunk may take; 0.0 where their number alone is the limit.
        keys: what chunks are found by: ``text``, as in every corpus that does not say it, ``title`` or ``questions``;
            see `precog.questions.found_by`.
    """

    model: str
    encoder: str
    encoder_fingerprint: str
    encode_mode: str = "once"
    codec: str = "fp16"
    layers: str = "all"
    chunk_tokens: int = DEFAULT_CHUNK_TOKENS
    overlap: int = 0
    strategy: str = "document"
    encoding_dtype: str = "float32"
    template: str = field(default="", metadata={"later": True})
    quality: str = field(default=FAST, metadata={"later": True})
    study_steps: int = field(default=0, metadata={"later": True})
    study_seconds: float = field(default=0.0, metadata={"later": True})
    keys: str = field(default="text", metadata={"later": True})

    def __post_init__(self) -> None:
        if self.quality != STUDY:  # what older versions made says how often it was read, and nothing of quality
            object.__setattr__(self, "quality", quality_of(self.encode_mode))

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> "CorpusSettings":
        """The settings that a corpus keeps.

        Raises:
            DamagedCorpusError: a key is missing, unknown or of another type.
        """
        found = settings_from(cls, values, "corpus")
        if values.get("quality", STUDY) != STUDY:
            raise DamagedCorpusError(
                "the settings of the corpus are not those of a corpus", given=values["quality"], expected=STUDY
            )
        return found

    def to_json(self) -> dict[str, object]:
        """Plain data, complete; what older versions do not know is left out where it says nothing."""
        values = asdict(self)
        if not self.template:
            del values["template"]
        if not self.is_studied:
            del values["quality"], values["study_steps"], values["study_seconds"]
        if self.keys == "text":
            del values["keys"]
        return values

    @property
    def is_studied(self) -> bool:
        """Whether the quality is ``study``."""
        return self.quality == STUDY

    @property
    def is_trained(self) -> bool:
        """Whether states are trained after they were read, so that some may be refined."""
        return self.is_studied and self.study_steps > 0

    @property
    def study_limits(self) -> StudyLimits:
        """How long each is studied."""
        return StudyLimits(self.study_steps, self.study_seconds or None)

    def studied_within(self, limits: StudyLimits) -> "CorpusSettings":
        """The same with limits that later runs keep."""
        return replace(self, study_steps=limits.steps or 0, study_seconds=limits.seconds or 0.0)

    @property
    def form(self) -> RecordForm:
        """How its states are kept."""
        return RecordForm(self.codec, self.layers, self.encode_mode, self.encoding_dtype, self.chunk_tokens)

    def check(self, wanted: Mapping[str, object], corpus: Path) -> None:
        """Compares with what a command line asks for of a corpus; None asks for nothing.

        Raises:
            UsageError: a setting differs, or what is asked for contradicts itself.
        """
        quality, encode_mode = wanted.get("quality"), wanted.get("encode_mode")
        assert quality is None or isinstance(quality, str)
        assert encode_mode is None or isinstance(encode_mode, str)
        encode_mode_for(quality, encode_mode)
        StudyLimits.of(wanted, quality or self.quality, self.study_steps)
        changed = [key for key in _FLAGS if wanted.get(key) not in (None, getattr(self, key))]
        if not changed:
            return
        hint = "use another folder"
        if set(changed) <= set(REINDEXED_FLAGS):
            options = [word for key in changed for word in (_FLAGS[key], str(wanted[key]))]
            done = "make new keys" if changed == ["keys"] else "read the stored text again"
            hint += f", or {done}: {reindex_command(corpus, *options)}"
        key = changed[0]
        raise UsageError(
            f"this corpus was made with another {_FLAGS[key]}",
            given=wanted[key],
            expected=getattr(self, key),
            hint=hint,
        )
