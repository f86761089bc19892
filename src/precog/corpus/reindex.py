"""Another model, encoder or kind of keys for a corpus, from its stored text: built beside it, then put in its place.

The documents' files are not needed. Where only keys change, the states are copied. Interrupted, the next run of the
same command goes on where it stopped; until the last step everybody sees the old corpus.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.backbones.registry import load_tokenizer
from precog.corpus.corpus import refresh_index, settings_of
from precog.corpus.model import check_reads, open_model
from precog.corpus.report import IngestReport, Progress, Remark, Silent
from precog.corpus.settings import CorpusSettings
from precog.corpus.unit import Drop, Event, Fail, Finish, Take, units
from precog.corpus.writer import CopiedStates, MadeStates, UnitWriter
from precog.encoders import Encoder, load_encoder
from precog.errors import InputError
from precog.interrupt import noting_at_interruption
from precog.questions.found_by import check_keys
from precog.records import ModelChoice
from precog.refine.choice import StudyLimits, encode_mode_for, quality_of
from precog.refine.quality import study_settings
from precog.store import Chunk as StoredChunk
from precog.store import CorpusStore, Document, RecordLayout
from precog.text.chunking.chunk import Chunk
from precog.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ReindexRequest:
    """What was asked for.

    Attributes:
        corpus: the folder.
        model: which model; named, it may be another one than the corpus's own.
        encoder: where a sentence encoder is, or one that is open; None for the corpus's own.
        wanted: any of ``quality``, ``encode_mode``, ``codec``, ``layers``, ``study_steps``, ``study_seconds`` and
            ``keys``; None leaves it as it is.
    """

    corpus: Path
    model: ModelChoice = field(default_factory=ModelChoice)
    encoder: str | Encoder | None = None
    wanted: Mapping[str, object] = field(default_factory=dict)

    @property
    def only_keys(self) -> bool:
        """Whether nothing was named that states depend on, but an encoder or a kind of keys."""
        asked = {key for key, value in self.wanted.items() if value is not None}
        return self.model.name is None and (asked == {"keys"} or (not asked and isinstance(self.encoder, str)))


def reindex(request: ReindexRequest, *, progress: Progress | None = None) -> IngestReport:
    """Reads every stored chunk again and swaps the corpus; with nothing new named, this repairs damaged states.

    Raises:
        UsageError: there is no such kind of keys.
        CorpusError, BusyError, ModelError, EncoderError, StorageError: as the parts do; the corpus stays as it was.
    """
    started = time.perf_counter()
    report = IngestReport()
    check_keys(request.wanted.get("keys"))
    with CorpusStore.open(request.corpus, write=True, allow_damaged=True) as old:
        before = settings_of(old)
        encoder = load_encoder(request.encoder or before.encoder or None)
        settings = replace(
            _wanted(before, request.wanted),
            encoder=request.encoder if isinstance(request.encoder, str) else before.encoder,
            encoder_fingerprint=encoder.fingerprint,
        )
        backbone = None
        layout, fingerprint = old.layout, old.fingerprint
        if request.only_keys:
            tokenizer = load_tokenizer(before.model)
        else:
            # a template belongs to the model it was given for: another one brings its own, unless one is given again
            settings = replace(settings, template=request.model.template_for(before.template))
            backbone = open_model(settings, request.model)
            check_reads(backbone, settings.encode_mode)
            if settings.is_trained and not before.is_trained:
                settings = settings.studied_within(settings.study_limits.on(backbone.device.type))
            study_settings(backbone, settings.quality, settings.study_limits)  # refused before anything is read
            request.model.check_found(before.model, old.fingerprint.hex() == backbone.fingerprint, "corpus")
            tokenizer = backbone.tokenizer
            folder = str(request.model.folder().resolve()) if request.model.name else settings.model
            settings = replace(settings, model=folder, encoding_dtype=backbone.encoding_dtype)
            layout = settings.form.layout(backbone.spec, tokenizer.vocab_size)
            fingerprint = bytes.fromhex(backbone.fingerprint)
            is_same = (fingerprint, layout, _studying(settings)) == (old.fingerprint, old.layout, _studying(before))
            if is_same and (encoder.fingerprint, settings.keys) != (before.encoder_fingerprint, before.keys):
                backbone = None  # only the keys change
        new = old.start_replacement(
            settings=settings.to_json(), layout=layout, fingerprint=fingerprint, key_dim=encoder.dim
        )
        try:
            new.set_state_budget(old.state_budget_bytes)
            _fill(old, new, backbone, settings, encoder, tokenizer, report, progress or Silent())
            refresh_index(new, encoder.fingerprint)
        except BaseException:
            new.close()
            raise
        old.publish_replacement(new)
    report.elapsed_sec = time.perf_counter() - started
    return report


def _wanted(before: CorpusSettings, wanted: Mapping[str, object]) -> CorpusSettings:
    """The settings with what was asked for by name.

    Raises:
        UsageError: it contradicts itself.
    """
    asked = {key: value for key, value in wanted.items() if value is not None}
    quality, encode_mode = asked.get("quality"), asked.get("encode_mode")
    assert quality is None or isinstance(quality, str)
    assert encode_mode is None or isinstance(encode_mode, str)
    limits = StudyLimits.of(
        asked,
        quality or (before.quality if encode_mode is None or before.is_studied else quality_of(encode_mode)),
        before.study_steps,
    )
    kept = {key: value for key, value in asked.items() if key in ("quality", "codec", "layers", "keys")}
    read = encode_mode_for(quality, encode_mode) or before.encode_mode
    settings = replace(before, encode_mode=read, **kept)  # type: ignore[arg-type]  # all of them are texts
    if not settings.is_studied:
        return settings.studied_within(StudyLimits())
    steps = before.study_steps if limits.steps is None else limits.steps
    seconds = limits.seconds or before.study_seconds or None
    return settings.studied_within(StudyLimits(steps, seconds if steps else None))


def _studying(settings: CorpusSettings) -> tuple[str, StudyLimits]:
    return settings.quality, settings.study_limits


def _fill(
    old: CorpusStore,
    new: CorpusStore,
    backbone: Backbone | None,
    settings: CorpusSettings,
    encoder: Encoder,
    tokenizer: Tokenizer,
    report: IngestReport,
    progress: Progress,
) -> None:
    states = CopiedStates(old) if backbone is None else MadeStates(backbone, settings)
    total = old.size().num_tokens
    if backbone is not None and backbone.spec.grows:
        progress.growing(new.layout.state_bytes, backbone.spec.capacity)
    progress.start(total)
    num_chunks = old.size().num_chunks

    def done() -> str:
        count = f"{new.size().num_chunks:,} of {num_chunks:,} chunks"
        return f"{count} are done, and the corpus answers as before until all are"

    writer = UnitWriter(new, states, encoder, settings.keys, tokenizer if settings.is_studied else None)
    with writer, noting_at_interruption(done):
        events = _events(old, new, new.layout, tokenizer, report, progress)
        for unit in units(events, is_studied=settings.is_studied):
            writer.commit(unit)
            progress.advance(report.tokens, writer.num_tokens)
        writer.keep_budget()
    report.states = writer.num_states
    report.parts = writer.num_parts
    report.let_go = writer.num_let_go
    if isinstance(states, MadeStates):
        report.study = states.tally


def _events(
    old: CorpusStore,
    new: CorpusStore,
    layout: RecordLayout,
    tokenizer: Tokenizer,
    report: IngestReport,
    progress: Progress,
) -> Iterator[Event]:
    for row in old.documents():
        if row.status == "indexing":
            continue  # it was never finished; its file is read again by the next `precog index`
        progress.reading(row.info.source)
        done = new.find_documents(row.info.source)
        settled = next((entry for entry in done if entry.status != "indexing"), None)
        if settled is not None and replace(settled, id=row.id, num_chunks=row.num_chunks) == row:
            report.unchanged += row.status == "indexed"
        elif row.status == "failed":
            yield Fail(row.info, row.reason or "")
        else:
            unfinished = next((entry for entry in done if entry.status == "indexing"), None)
            yield from _document(old, row, unfinished, layout, tokenizer, report)
            report.changed += 1
        if row.status == "failed":
            report.failed += 1
            report.failures.append(Remark(row.info.source, row.reason or ""))
    kept = {row.info.source for row in old.documents() if row.status != "indexing"}
    for row in list(new.documents()):
        if row.info.source not in kept:  # forgotten since an interrupted run copied it
            yield Drop(row.id)


def _document(
    old: CorpusStore,
    row: Document,
    unfinished: Document | None,
    layout: RecordLayout,
    tokenizer: Tokenizer,
    report: IngestReport,
) -> Iterator[Event]:
    resumed = unfinished is not None and unfinished.info.raw_sha256 == row.info.raw_sha256
    num_committed = unfinished.num_chunks if unfinished is not None and resumed else 0
    for stored in old.chunks_of(row.id):
        report.tokens += stored.num_tokens
        if stored.info.ordinal < num_committed:
            continue
        report.chunks += 1
        yield Take(row.info, _chunk(stored, tokenizer, layout), copy_of=stored.id)
    report.bytes += row.info.size_bytes
    yield Finish(row.info)


def _chunk(stored: StoredChunk, tokenizer: Tokenizer, layout: RecordLayout) -> Chunk:
    info = stored.info
    ids = tuple(tokenizer.encode(info.context + info.text))
    if len(ids) > layout.max_tokens:
        hint = "index the documents again into a new folder"
        given = f"{len(ids)} tokens of {stored.source}"
        raise InputError(
            "a chunk is too long for this model's tokenizer", given=given, expected=layout.max_tokens, hint=hint
        )
    return Chunk(info.text, info.context, ids, stored.source, info.page, info.span, info.ordinal)
