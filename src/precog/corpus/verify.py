"""``precog verify``: this model and this corpus, held to what the product claims.

Chunks of the corpus are read in one pass with a question, the first of them with questions of every length, and the
logits compared with those that the stored state gives; then the checksums of all rows and keys of the catalogue are
compared, and every stored record is read, its checksum recomputed and its fingerprint compared. ``bound.fp32`` is on
logits; ``bound.fp16`` is what the relative error of a state is expected to stay within while the question is read, and
each stored real is held to its codec's own bound (`max_codec_error`, in units of it).
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.corpus.corpus import settings_of
from precog.corpus.model import open_model, state_reader
from precog.engine.conformance import CONTINUATION_BOUND, FP32_BOUND, Comparison, Conformance, verify_chunk
from precog.engine.templates import question_segment
from precog.errors import CorpusError, DamagedCorpusError, DamagedStateError
from precog.records import ModelChoice
from precog.state import LayerSubset, titled
from precog.store import Chunk, CorpusStore
from precog.store.remedy import states_anew

MOST_QUESTION_TOKENS = 40
DEFAULT_CHUNKS = 3
_QUESTION = (
    "Which of the things that were just read are true, who said them first, where was that, when did it happen, "
    "and how many people were there to see it with their own eyes?"
)


@dataclass(frozen=True)
class VerifyReport:
    """What was compared and what did not hold.

    Attributes:
        model: name of the model.
        fingerprint: of its states.
        encoding_dtype: compute dtype; only FP32 is held to the exact bound.
        codec: how the corpus keeps its states.
        conformance: logits and states, injected against read.
        chunks_checked: chunks that were read for it.
        records_checked: stored records, all of them.
        violations: one line each.
    """

    model: str
    fingerprint: str
    encoding_dtype: str
    codec: str
    conformance: Conformance
    chunks_checked: int
    records_checked: int
    violations: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return not self.violations

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        found = self.conformance
        missing = Comparison()
        stored = found.coded.get("stored", missing)
        fp16 = stored if self.codec == "fp16" else found.coded.get("fp16", missing)
        return {
            "ok": self.ok,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "max_abs_logit_error": {
                "fp32": max(found.exact.max_abs_logit_error, found.live.max_abs_logit_error),
                "fp16": fp16.max_abs_logit_error,
                "stored": stored.max_abs_logit_error,
            },
            "bound": {"fp32": FP32_BOUND, "fp16": CONTINUATION_BOUND},
            "bound_of": {"fp32": "max_abs_logit_error", "fp16": "max_relative_state_error"},
            "max_relative_state_error": {
                "fp16": fp16.max_relative_state_error,
                "stored": stored.max_relative_state_error,
            },
            "max_codec_error": {"fp16": fp16.max_codec_error, "stored": stored.max_codec_error},
            "argmax_agreement": {
                "fp32": found.exact.argmax_agreement,
                "fp16": fp16.argmax_agreement,
                "stored": stored.argmax_agreement,
            },
            "encoding_dtype": self.encoding_dtype,
            "cuts": found.cuts,
            "positions": found.exact.positions + found.live.positions,
            "chunks_checked": self.chunks_checked,
            "records_checked": self.records_checked,
            "violations": self.violations,
        }


def verify_corpus(
    corpus: Path,
    *,
    model: ModelChoice | None = None,
    num_chunks: int = DEFAULT_CHUNKS,
    on_step: Callable[[str], None] | None = None,
) -> VerifyReport:
    """Compares and checks.

    Args:
        corpus: its folder.
        model: which model; None for the corpus's own.
        num_chunks: chunks to read, spread evenly over the corpus.
        on_step: told what is being done.

    Raises:
        CorpusError: no corpus, or nothing in it.
        ForeignStateError: another model made it.
    """
    say = on_step or (lambda _: None)
    with CorpusStore.open(corpus) as store:
        settings = settings_of(store)
        choice = model or ModelChoice()
        backbone = open_model(settings, choice)
        states = state_reader(store, settings, backbone, named=choice.name)
        layers = LayerSubset.parse(settings.layers, backbone.spec.layers)
        chosen = _spread(store, num_chunks)
        question = verification_question(backbone)
        found = Conformance()
        violations: list[str] = []
        for number, chunk in enumerate(chosen):
            say(f"reading chunk {number + 1} of {len(chosen)}")
            ids = backbone.tokenizer.encode(chunk.info.context + chunk.info.text)
            record = None
            if chunk.is_stored:
                try:
                    record = store.read_state(chunk.id)
                except (DamagedStateError, DamagedCorpusError):
                    continue  # reported below, with every other record
            label = f"{chunk.source}, chunk {chunk.info.ordinal}"
            found = found.joined(
                verify_chunk(
                    backbone,
                    ids if record is None else record.token_ids.tolist(),
                    question,
                    stored=None if record is None else states.state(record),
                    stored_codec=settings.codec,
                    layers=layers,
                    codecs=() if settings.codec == "fp16" else ("fp16",),  # the stored states are FP16's already
                    live_cuts=number == 0,
                    every_length=number == 0,
                    label=label,
                )
            )
            if record is not None and record.token_ids.tolist() != ids:
                violations.append(f"{label}: the stored tokens are not those of the stored text")
        say("checking the catalogue")
        violations += (" ".join(line.split()) for line in store.complaints())
        say("checking every record")
        num_records = 0
        for location, record_or_error in store.iter_records():
            num_records += 1
            if isinstance(record_or_error, DamagedStateError):
                violations.append(" ".join(str(record_or_error).split()))
            elif record_or_error.fingerprint != store.fingerprint:
                violations.append(
                    f"{location} was made by another model, {titled('', record_or_error.fingerprint.hex())}, than "
                    f"{titled(backbone.card.name, backbone.fingerprint)}; {states_anew(store.path)}"
                )
    return VerifyReport(
        backbone.card.name,
        backbone.fingerprint,
        backbone.encoding_dtype,
        settings.codec,
        found,
        len(chosen),
        num_records,
        [*found.violations, *violations],
    )


def verification_question(backbone: Backbone) -> list[int]:
    """A question's segment of 40 tokens, whose prefixes are the questions of 1 to 40 tokens."""
    segment = question_segment(backbone, " ".join([_QUESTION] * 2), template="{question}")
    return segment[:MOST_QUESTION_TOKENS]


def _spread(store: CorpusStore, count: int) -> list[Chunk]:
    ids = list(store.visible_chunk_ids())
    if not ids:
        hint = "precog index PATH… --corpus DIR"
        raise CorpusError("there is nothing in this corpus yet", given=store.path, hint=hint)
    step = max(1, len(ids) // max(1, count))
    chosen = ids[::step][:count]
    chunks: list[Chunk] = []
    for chunk_id in chosen:
        with contextlib.suppress(DamagedCorpusError):  # reported with every other row
            chunks += store.chunks([chunk_id]).values()
    return chunks
