"""Documents ▸ chunks ▸ states and keys ▸ store: streaming, idempotent, resumable.

At any time one commit unit is in memory (see `unit`). A document is known by its bytes: one that has not changed is
not read again, and one that has replaces what it said before in the very step that makes its new version visible.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from precog.backbones.protocol import Backbone
from precog.corpus.corpus import refresh_index, settings_of
from precog.corpus.model import check_model
from precog.corpus.report import IngestReport, Progress, Remark, Silent
from precog.corpus.sources import has_vanished
from precog.corpus.unit import Drop, Event, Fail, Finish, Take, units
from precog.corpus.writer import MadeStates, UnitWriter
from precog.encoders import Encoder
from precog.errors import DocumentError, PrecogError, UsageError
from precog.interrupt import noting_at_interruption
from precog.store import CorpusStore, DocumentInfo
from precog.store import Document as Row
from precog.text.chunking.strategy import Strategy, chunk_document
from precog.text.document import Document
from precog.text.loading import load_document
from precog.text.sources import Source, SourceList

_FIRST_REFRESH_STATES = 4096


class Ingest:
    """One run over some sources.

    Args:
        store: a corpus, open to write.
        backbone: the model that made its states, in the corpus's encode mode.
        encoder: the encoder that made its keys.
        named: what the user called that model, for the error; None when nobody named one.
        progress: told what happens.

    Raises:
        ForeignStateError: the corpus was made by another model.
    """

    def __init__(
        self,
        store: CorpusStore,
        backbone: Backbone,
        encoder: Encoder,
        *,
        named: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._settings = settings_of(store)
        check_model(store, self._settings, backbone, named)
        if backbone.encoding_dtype != self._settings.encoding_dtype:
            given, expected = backbone.encoding_dtype, self._settings.encoding_dtype
            hint = "leave --dtype out, or read everything again: precog reindex --dtype …"
            raise UsageError("this corpus was made with another --dtype", given=given, expected=expected, hint=hint)
        self._store = store
        self._backbone = backbone
        self._encoder = encoder
        states = MadeStates(backbone, self._settings)
        self._writer = UnitWriter(
            store,
            states,
            encoder,
            self._settings.keys,
            backbone.tokenizer if self._settings.is_studied else None,
        )
        self._progress = progress or Silent()
        self._report = IngestReport(study=states.tally)
        self._done_bytes = 0

    def run(self, found: SourceList, *, prune: bool = False) -> IngestReport:
        """Brings the corpus up to date with the sources.

        Args:
            found: what to read.
            prune: forget documents whose file has vanished; otherwise they are only reported.

        Raises:
            StorageError: the disk is full or refuses; whatever was committed stays, and the next run goes on there.
            KeyboardInterrupt: likewise; its note says what the corpus holds by then.
        """
        started = time.perf_counter()
        report = self._report
        report.skipped = dict(found.skipped)
        report.passed_over = [Remark(name, reason) for name, reason in found.passed_over]
        if self._backbone.spec.grows:
            self._progress.growing(self._store.layout.state_bytes, self._backbone.spec.capacity)
        self._progress.start(sum(map(size_of, found.sources)))
        with self._writer as writer, noting_at_interruption(self._held):
            next_refresh = _FIRST_REFRESH_STATES
            for unit in units(self._events(found.sources, prune), is_studied=self._settings.is_studied):
                writer.commit(unit)
                self._advance(self._done_bytes)
                if writer.num_states >= next_refresh:  # whoever asks meanwhile, or after a crash, has less to rebuild
                    refresh_index(self._store, self._encoder.fingerprint)
                    next_refresh = 2 * writer.num_states
            writer.keep_budget()
        report.states = writer.num_states
        report.parts = writer.num_parts
        report.let_go = writer.num_let_go
        refresh_index(self._store, self._encoder.fingerprint)
        report.elapsed_sec = time.perf_counter() - started
        return report

    def _held(self) -> str:
        size = self._store.size()
        return f"{size.num_documents:,} whole documents and {size.num_chunks:,} chunks in all are kept"

    def _events(self, sources: Sequence[Source], prune: bool) -> Iterator[Event]:
        for source in sources:
            yield from self._document(source)
        yield from self._vanished({source.name for source in sources}, prune)

    def _document(self, source: Source) -> Iterator[Event]:
        """What is to be done about one source."""
        report = self._report
        self._progress.reading(source.name)
        settled, unfinished = self._rows(source.name)
        before = self._done_bytes
        info = DocumentInfo(source.name, "", b"\0" * 32, size_of(source), modified_ns(source))
        try:
            document = load_document(source)
            info = replace(info, media_type=document.media_type, raw_sha256=bytes.fromhex(document.sha256))
            if settled is not None and settled.info.raw_sha256 == info.raw_sha256:
                yield from self._unchanged(settled, unfinished)
                self._advance(before + info.size_bytes)
                return
            yield from self._chunks(document, info, unfinished, before)
        except Exception as error:
            if isinstance(error, PrecogError) and not isinstance(error, DocumentError):
                raise
            reason = reason_of(error, source.name)  # whatever a reader of formats stumbles over stops one document only
            report.failed += 1
            report.failures.append(Remark(source.name, reason))
            if settled is None or settled.info.raw_sha256 != info.raw_sha256 or settled.reason != reason:
                yield Fail(info, reason)
            elif unfinished is not None:
                yield Drop(unfinished.id)
        else:
            report.changed += settled is not None
            report.new += settled is None
            report.bytes += info.size_bytes
        self._advance(before + info.size_bytes)

    def _rows(self, name: str) -> tuple[Row | None, Row | None]:
        rows = self._store.find_documents(name)
        settled = next((row for row in rows if row.status != "indexing"), None)
        return settled, next((row for row in rows if row.status == "indexing"), None)

    def _unchanged(self, settled: Row, unfinished: Row | None) -> Iterator[Event]:
        if unfinished is not None:
            yield Drop(unfinished.id)
        name = settled.info.source
        if settled.status == "failed":
            self._report.failed += 1
            self._report.failures.append(Remark(name, settled.reason or ""))
            return
        self._report.unchanged += 1
        warnings = settled.info.details.get("warnings")
        if isinstance(warnings, list):
            self._report.warnings += [Remark(name, str(warning)) for warning in warnings]

    def _chunks(self, document: Document, info: DocumentInfo, unfinished: Row | None, before: int) -> Iterator[Event]:
        """The chunks of a document but those that an interrupted run has committed, then its end."""
        resumed = unfinished is not None and unfinished.info.raw_sha256 == info.raw_sha256
        num_committed = unfinished.num_chunks if unfinished is not None and resumed else 0
        warnings: list[str] = []
        settings = self._settings
        chunks = chunk_document(
            document,
            self._backbone.tokenizer,
            strategy=Strategy(settings.strategy),
            max_tokens=settings.chunk_tokens,
            overlap=settings.overlap,
            warn=warnings.append,
        )
        num_chunks = num_tokens = 0
        for chunk in chunks:
            if chunk.index >= num_committed:
                num_chunks += 1
                num_tokens += len(chunk.token_ids)
                yield Take(info, chunk)
            self._advance(before + min(info.size_bytes, chunk.span[1]))
        if warnings:
            info = replace(info, details={**info.details, "warnings": warnings})
            self._report.warnings += [Remark(info.source, warning) for warning in warnings]
        self._report.chunks += num_chunks
        self._report.tokens += num_tokens
        yield Finish(info)

    def _vanished(self, named: set[str], prune: bool) -> Iterator[Event]:
        """Documents whose file is gone; what was left unfinished of one was never promised and goes with it."""
        for row in self._store.documents():
            if row.info.source in named or not has_vanished(row.info.source):
                continue
            if row.status == "indexing":
                yield Drop(row.id)
                continue
            self._report.missing.append(row.info.source)
            if prune:
                self._report.pruned += 1
                yield Drop(row.id)

    def _advance(self, done_bytes: int) -> None:
        self._done_bytes = done_bytes
        self._progress.advance(done_bytes, self._writer.num_tokens)


def size_of(source: Source) -> int:
    """Bytes of a source; 0 when nobody can tell."""
    try:
        if source.path is not None:
            return source.path.stat().st_size
        with source.open() as stream:
            return stream.seek(0, 2)
    except (OSError, DocumentError):
        return 0


def modified_ns(source: Source) -> int:
    """When a file was last changed; 0 for a stream."""
    try:
        return source.path.stat().st_mtime_ns if source.path is not None else 0
    except OSError:
        return 0


def reason_of(error: Exception, name: str) -> str:
    """The error in one line without the document's own name."""
    if not isinstance(error, DocumentError):
        return f"reading it failed, which is a bug in precog ({type(error).__name__}: {' '.join(str(error).split())})"
    given = (error.given or "").removeprefix(name).removeprefix(", ")
    return str(DocumentError(error.message, given=given or None, expected=error.expected, hint=error.hint))
