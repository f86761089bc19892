"""``precog verify``: this model and this corpus, held to what the product claims.

Chunks of the corpus are read in one pass with a question, the first of them with questions of every length, and the
logits compared with those that the stored state gives; then the checksums of all rows and keys of the catalogue are
compared, and every stored record is read, its checksum recomputed and its fingerprint compared. ``bound.fp32`` is on
logits; ``bound.fp16`` is what the relative error of a state is expected to stay within while the question is read, and
each stored real is held to its codec's own bound (`max_codec_error`, in units of it). A refined state is not what
reading gives: its record is checked, and that it is finite, and no logits are compared.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.corpus.corpus import settings_of
from precog.corpus.model import open_model, state_reader
from precog.corpus.settings import CorpusSettings
from precog.engine.conformance import CONTINUATION_BOUND, FP32_BOUND, Comparison, Conformance, verify_chunk
from precog.engine.templates import question_segment
from precog.errors import CorpusError, DamagedCorpusError, DamagedStateError
from precog.records import ModelChoice, StateReader
from precog.state import LayerSubset, titled
from precog.store import Chunk, CorpusStore, Location, Record
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
        records_refined: those of them that were trained on after they were read: reading their chunks does not give
            them, so that they are checked, and not compared.
        violations: one line each.
    """

    model: str
    fingerprint: str
    encoding_dtype: str
    codec: str
    conformance: Conformance
    chunks_checked: int
    records_checked: int
    records_refined: int
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
        fp16 = found.coded.get("fp16", missing)
        if self.codec == "fp16":
            fp16 = fp16.joined(stored)
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
            "records_refined": self.records_refined,
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
        refined = store.refined() if settings.is_trained else set()
        chosen = _spread(store, num_chunks, refined)
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
            comparable = record is not None and not record.refined
            found = found.joined(
                verify_chunk(
                    backbone,
                    ids if record is None else record.token_ids.tolist(),
                    question,
                    stored=states.state(record) if record is not None and comparable else None,
                    stored_codec=settings.codec,
                    layers=layers,
                    codecs=() if settings.codec == "fp16" and comparable else ("fp16",),  # else those stored are FP16's
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
        num_records = num_refined = 0
        for location, record_or_error in store.iter_records():
            num_records += 1
            if isinstance(record_or_error, DamagedStateError):
                violations.append(" ".join(str(record_or_error).split()))
            elif record_or_error.fingerprint != store.fingerprint:
                violations.append(
                    f"{location} was made by another model, {titled('', record_or_error.fingerprint.hex())}, than "
                    f"{titled(backbone.card.name, backbone.fingerprint)}; {states_anew(store.path)}"
                )
            elif record_or_error.refined:
                num_refined += 1
                if wrong := _wrong_with(record_or_error, settings, states):
                    violations.append(f"{location} is refined, and {wrong}; {states_anew(store.path)}")
    return VerifyReport(
        backbone.card.name,
        backbone.fingerprint,
        backbone.encoding_dtype,
        settings.codec,
        found,
        len(chosen),
        num_records,
        num_refined,
        [*found.violations, *violations],
    )


def _wrong_with(refined: Record, settings: CorpusSettings, states: StateReader) -> str:
    """What can be told of a refined state without making it again; "" for nothing."""
    if not settings.is_trained:
        return "nothing of this corpus is studied"
    try:
        states.state(refined)
    except DamagedStateError:  # whole, and yet no state
        return "not finite"
    return ""


def verification_question(backbone: Backbone) -> list[int]:
    """A question's segment of 40 tokens, whose prefixes are the questions of 1 to 40 tokens."""
    segment = question_segment(backbone, " ".join([_QUESTION] * 2), template="{question}")
    return segment[:MOST_QUESTION_TOKENS]


def _spread(store: CorpusStore, count: int, refined: set[Location]) -> list[Chunk]:
    """Chunks all over the corpus: those whose states reading gives, where there are any."""
    ids = list(store.visible_chunk_ids())
    if refined:
        ids = [i for i in ids if not _is_refined(store, i, refined)] or ids
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


def _is_refined(store: CorpusStore, chunk_id: int, refined: set[Location]) -> bool:
    with contextlib.suppress(DamagedCorpusError):  # reported with every other row
        return any(chunk.location in refined for chunk in store.chunks([chunk_id]).values())
    return False
