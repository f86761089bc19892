"""What a job does: reads uploads or files of this machine into a corpus, or reads a corpus again."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from precog.corpus.corpus import refresh_index
from precog.corpus.indexing import IndexRequest, add_sources, outside
from precog.corpus.reindex import ReindexRequest, reindex
from precog.corpus.report import IngestReport
from precog.encoders import Encoder
from precog.errors import AccessError, InputError, LimitError, MissingError
from precog.records import ModelChoice
from precog.server.job import REINDEX, Job
from precog.server.open_corpora import OpenCorpora
from precog.server.principal import SCOPES, Principal
from precog.server.rooted import rooted
from precog.server.settings import ServerSettings
from precog.server.tenant import Tenant
from precog.server.wording import in_requests_words
from precog.store import CorpusStore
from precog.store.folder import CorpusFolder
from precog.text.sources import Source, SourceList, find_sources

_RETRY_SEC = 1.0
ModelOf = Callable[[Principal, threading.Event], ModelChoice]


class JobWork:
    """Does jobs, one in each thread that calls it.

    Args:
        settings: of the server.
        model: the model for the work of one user; it stops when the event is set.
        encoder: of sentences, open.
        corpora: that are open to be asked.
        on_read: told the tokens that a job has read, and the seconds it took.
    """

    def __init__(
        self,
        settings: ServerSettings,
        model: ModelOf,
        encoder: Encoder,
        corpora: OpenCorpora,
        on_read: Callable[[int, float], None] = lambda tokens, seconds: None,
    ) -> None:
        self._on_read = on_read
        self._settings, self._model, self._encoder, self._corpora = settings, model, encoder, corpora

    def __call__(self, job: Job) -> Mapping[str, object]:
        """Does it, and tells what came of it.

        Raises:
            CancelledError: it was stopped; what was committed stays, until `take_back`.
            PrecogError: as the parts do.
        """
        record = job.record
        folder = Tenant(self._settings, record.user).own_corpus(record.corpus)
        if not CorpusFolder(folder).exists:
            raise MissingError("this corpus was deleted meanwhile", given=record.corpus)
        choice = self._model_for(job)
        with in_requests_words(folder, record.corpus):
            report = (self._reindex if record.kind == REINDEX else self._ingest)(job, folder, choice)
        self._on_read(report.tokens, report.elapsed_sec)
        return report.to_json()

    def take_back(self, job: Job) -> None:
        """Removes what an ingest that is over has begun of documents and not finished: nobody would go on with it.

        Raises:
            PrecogError: the corpus cannot be written to.
        """
        record = job.record
        folder = Tenant(self._settings, record.user).own_corpus(record.corpus)
        if record.kind == REINDEX or not CorpusFolder(folder).exists:
            return
        uploads, paths = {one.name for one in record.uploads}, [os.path.realpath(path) for path in record.paths]
        with CorpusStore.open(folder, write=True) as store:
            begun = [
                row.id
                for row in store.documents("indexing")
                if (name := row.info.source) in uploads
                or (os.path.isabs(name) and any(_is_below(name, path) for path in paths))
            ]
            if begun:
                with store.batch() as batch:
                    for document_id in begun:
                        batch.delete_document(document_id)
                refresh_index(store, self._encoder.fingerprint)

    def _model_for(self, job: Job) -> ModelChoice:
        """The model, as soon as not too many wait for it: a job has time."""
        principal = Principal(job.record.user, frozenset(SCOPES))
        while True:
            job.look()
            try:
                return self._model(principal, job.stopped)
            except LimitError as error:
                job.stopped.wait(error.retry_after_sec or _RETRY_SEC)

    def _ingest(self, job: Job, folder: Path, choice: ModelChoice) -> IngestReport:
        request = IndexRequest((), folder, choice, encoder=self._encoder)
        uploads = tuple(Source(one.name, job.folder / one.file) for one in job.record.uploads)
        found = SourceList(uploads, {})
        if job.record.paths:
            paths = below_roots(job.record.paths, self._settings)
            found = find_sources(paths)
            for own in (self._settings.data, self._settings.home):
                found = outside(found, own, "file of the server itself")
            found = replace(found, sources=rooted(found.sources, self._settings.allow_roots))
        if not found.sources and job.record.paths:
            raise InputError("there is nothing to read", given=", ".join(job.record.paths))
        return add_sources(request, found, progress=job)

    def _reindex(self, job: Job, folder: Path, choice: ModelChoice) -> IngestReport:
        request = ReindexRequest(folder, choice, encoder=self._encoder, wanted=job.record.wanted)
        report = reindex(request, progress=job)
        self._corpora.drop(folder)
        return report


def below_roots(paths: Sequence[str], settings: ServerSettings) -> list[str]:
    """The real paths of what may be read by its path.

    Raises:
        AccessError: a path leads out of the folders that the server was told of, whether anything is there or not.
        InputError: there is nothing of that name, or a device or a pipe.
    """
    if not settings.allow_roots:
        raise AccessError("this server reads no files of its machine", is_known=True, hint="upload them")
    roots = [os.path.realpath(root) for root in settings.allow_roots]
    own = [os.path.realpath(path) for path in (settings.data, settings.home)]
    real = []
    for path in paths:
        if "\0" in path or not os.path.isabs(path):
            raise InputError("this is no absolute path", given=path.replace("\0", "\\0"))
        found = os.path.realpath(path)
        if not any(_is_below(found, root) for root in roots) or any(_is_below(found, place) for place in own):
            hint = "upload it, or have the server started with --allow-root"
            raise AccessError("files may not be read there", is_known=True, hint=hint)
        if not os.path.exists(found):
            raise InputError("there is no such file or folder", given=path)
        if not os.path.isfile(found) and not os.path.isdir(found):
            raise InputError("this is neither a file nor a folder", given=path)
        real.append(found)
    return real


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder
