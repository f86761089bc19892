"""One ``index`` request from its words to its report: sources, model, encoder, corpus, run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from precog.backbones.card import MOST_CHUNK_TOKENS
from precog.backbones.hosted.backbone import fitted
from precog.backbones.protocol import Backbone
from precog.corpus.corpus import open_encoder, settings_of
from precog.corpus.ingest import Ingest
from precog.corpus.model import check_reads, open_model
from precog.corpus.report import IngestReport, Progress
from precog.corpus.settings import DEFAULT_CHUNK_TOKENS, DEFAULT_KEYS, CorpusSettings
from precog.encoders import Encoder, load_encoder
from precog.errors import InputError, UsageError
from precog.questions.found_by import check_keys
from precog.records import ModelChoice
from precog.refine.choice import FAST, StudyLimits, encode_mode_for
from precog.refine.quality import study_settings
from precog.state import codec_named
from precog.store import CorpusStore
from precog.store.folder import CorpusFolder
from precog.text.chunking.strategy import MIN_MAX_TOKENS, Strategy
from precog.text.sources import SourceList, find_sources


@dataclass(frozen=True)
class IndexRequest:
    """What was asked for.

    Attributes:
        paths: files, folders, globs or "-".
        corpus: the folder; made when it is not there.
        model: which model.
        encoder: where a sentence encoder is, or one that is open; None for the corpus's own, or the default one.
        include_all: read also what is hidden or ignored.
        prune: forget documents whose file has vanished.
        wanted: settings of `CorpusSettings` that were asked for by name; None values ask for nothing.
        budget_bytes: what the records of states may take together from now on; None changes nothing.
        lifts_budget: there is no such limit from now on; what gave way comes back with the next `reindex`.
    """

    paths: tuple[str, ...]
    corpus: Path
    model: ModelChoice = field(default_factory=ModelChoice)
    encoder: str | Encoder | None = None
    include_all: bool = False
    prune: bool = False
    wanted: Mapping[str, object] = field(default_factory=dict)
    budget_bytes: int | None = None
    lifts_budget: bool = False


def index_documents(request: IndexRequest, *, progress: Progress | None = None) -> IngestReport:
    """Makes a corpus or brings it up to date.

    Raises:
        UsageError: nothing to read was named, or a setting contradicts the corpus's own.
        InputError: a path names nothing, or there is no file to read in what was named.
        CorpusError, ModelError, EncoderError, ForeignStateError, StorageError: as the parts do.
    """
    _check_budget(request)
    if not request.paths and not request.prune and request.budget_bytes is None and not request.lifts_budget:
        raise UsageError("what is to be read?", expected="files, folders, globs or - for standard input")
    check_keys(request.wanted.get("keys"))
    found = SourceList((), {})
    if request.paths:
        found = find_sources(request.paths, include_all=request.include_all)
        found = outside(found, request.corpus, "file of the corpus itself")
    if not found.sources and request.paths:
        passed_over = ", ".join(f"{count} × {reason}" for reason, count in found.skipped.items())
        given = f"{', '.join(request.paths)} ({passed_over or 'empty'})"
        raise InputError("there is nothing to read", given=given, hint="--all reads also what is hidden or ignored")
    opened = (_open if CorpusFolder(request.corpus).exists else _create)(request)
    return _ingest(request, opened, found, progress)


def add_sources(request: IndexRequest, found: SourceList, *, progress: Progress | None = None) -> IngestReport:
    """Brings a corpus that is there up to date with sources that were found already; ``paths`` counts for nothing.

    Raises:
        CorpusError: there is no corpus.
        UsageError, ModelError, EncoderError, ForeignStateError, StorageError: as the parts do.
    """
    _check_budget(request)
    return _ingest(request, _open(request), found, progress)


def _ingest(
    request: IndexRequest,
    opened: tuple[CorpusStore, Backbone, Encoder],
    found: SourceList,
    progress: Progress | None,
) -> IngestReport:
    store, backbone, encoder = opened
    with store:
        if request.budget_bytes is not None or request.lifts_budget:
            store.set_state_budget(request.budget_bytes)
        return Ingest(store, backbone, encoder, named=request.model.name, progress=progress).run(
            found, prune=request.prune
        )


def create_corpus(request: IndexRequest) -> None:
    """Makes a corpus without any document.

    Raises:
        UsageError: a setting is out of range, or the model cannot do it.
        CorpusError, ModelError, EncoderError, StorageError: as the parts do.
    """
    _check_budget(request)
    check_keys(request.wanted.get("keys"))
    store, _, _ = _create(request)
    with store:
        if request.budget_bytes is not None:
            store.set_state_budget(request.budget_bytes)


def _check_budget(request: IndexRequest) -> None:
    if request.budget_bytes is not None and request.budget_bytes < 0:
        raise UsageError("--budget is out of range", given=request.budget_bytes, expected="bytes, at least 0")


def outside(found: SourceList, folder: Path, reason: str) -> SourceList:
    """The sources without the files of a folder, such as the corpus itself, which may stand in one that is indexed."""
    inside = os.path.realpath(folder) + os.sep
    kept = tuple(s for s in found.sources if s.path is None or not os.path.realpath(s.path).startswith(inside))
    num_left_out = len(found.sources) - len(kept)
    skipped = {**found.skipped, reason: num_left_out} if num_left_out else found.skipped
    return SourceList(kept, skipped, found.passed_over)


def _open(request: IndexRequest) -> tuple[CorpusStore, Backbone, Encoder]:
    store = CorpusStore.open(request.corpus, write=True)
    try:
        settings = settings_of(store, request.wanted)
        backbone = open_model(settings, request.model)
        study_settings(backbone, settings.quality, settings.study_limits)  # refused before anything is read
        return store, backbone, open_encoder(store, settings, request.encoder)
    except BaseException:
        store.close()
        raise


def _create(request: IndexRequest) -> tuple[CorpusStore, Backbone, Encoder]:
    wanted = {key: value for key, value in request.wanted.items() if value is not None}
    _check(wanted)
    quality = str(wanted.get("quality", FAST))
    limits = StudyLimits.of(wanted, quality)
    encoder = load_encoder(request.encoder)
    backbone = request.model.load(str(wanted.setdefault("encode_mode", encode_mode_for(quality, None))))
    check_reads(backbone, str(wanted["encode_mode"]))
    study_settings(backbone, quality, limits)  # refused before a folder is made
    wanted.setdefault("keys", DEFAULT_KEYS)
    wanted.setdefault("chunk_tokens", backbone.card.chunk_tokens or DEFAULT_CHUNK_TOKENS)
    _check_overlap(wanted)
    chunk_tokens = wanted["chunk_tokens"]
    assert isinstance(chunk_tokens, int)
    backbone = fitted(backbone, chunk_tokens)
    settings = CorpusSettings(
        model=str(request.model.folder().resolve()),
        encoder=request.encoder if isinstance(request.encoder, str) else "",
        encoder_fingerprint=encoder.fingerprint,
        encoding_dtype=backbone.encoding_dtype,
        template="" if request.model.template is None else request.model.template.to_json(),
        **{key: value for key, value in wanted.items() if key not in ("study_steps", "study_seconds")},  # type: ignore[arg-type]  # checked above
    )
    if settings.is_studied:
        settings = settings.studied_within(limits.on(backbone.device.type))
    store = CorpusStore.create(
        request.corpus,
        settings=settings.to_json(),
        layout=settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size),
        fingerprint=bytes.fromhex(backbone.fingerprint),
        key_dim=encoder.dim,
    )
    return store, backbone, encoder


def _check(wanted: Mapping[str, object]) -> None:
    """Refuses settings before anything is loaded; layers wait for the model."""
    codec_named(str(wanted.get("codec", "fp16")))
    strategies = [strategy.value for strategy in Strategy]
    if wanted.get("strategy", strategies[0]) not in strategies:
        raise UsageError("--strategy: no such strategy", given=wanted["strategy"], expected=", ".join(strategies))
    quality, encode_mode = wanted.get("quality"), wanted.get("encode_mode")
    assert quality is None or isinstance(quality, str)
    assert encode_mode is None or isinstance(encode_mode, str)
    encode_mode_for(quality, encode_mode)
    StudyLimits.of(wanted, quality or FAST)
    chunk_tokens = wanted.get("chunk_tokens", DEFAULT_CHUNK_TOKENS)
    assert isinstance(chunk_tokens, int)
    if not MIN_MAX_TOKENS <= chunk_tokens <= MOST_CHUNK_TOKENS:
        expected = f"{MIN_MAX_TOKENS} to {MOST_CHUNK_TOKENS}"
        raise UsageError("--chunk-tokens is out of range", given=chunk_tokens, expected=expected)
    _check_overlap({"chunk_tokens": MOST_CHUNK_TOKENS, **wanted})  # the model's own length is not known yet


def _check_overlap(wanted: Mapping[str, object]) -> None:
    chunk_tokens, overlap = wanted["chunk_tokens"], wanted.get("overlap", 0)
    assert isinstance(chunk_tokens, int)
    assert isinstance(overlap, int)
    if not 0 <= overlap <= chunk_tokens // 2:
        expected = f"0 to {chunk_tokens // 2}, half of a chunk"
        raise UsageError("--overlap is out of range", given=overlap, expected=expected)
