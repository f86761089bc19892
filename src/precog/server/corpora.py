"""Corpora of a user: made, described, deleted."""

import json
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from precog.backbones.registry import title_of
from precog.corpus.corpus import settings_of
from precog.corpus.indexing import IndexRequest, create_corpus
from precog.encoders import Encoder
from precog.errors import AccessError, CorpusError, LimitError, MissingError, PrecogError
from precog.records import ModelChoice
from precog.server.forgetting import forget_using
from precog.server.services import Services
from precog.server.tenant import Tenant, check_name, make_private
from precog.server.wording import in_requests_words, reworded
from precog.store import CorpusStore
from precog.store.failure import guarded
from precog.store.folder import CorpusFolder, WriterLock, write_atomically

MOST_CORPORA = 100
"""Of one user."""
_WAIT_SEC = 10.0
_JOB_SEC = 60.0
"""What a job may take to its next step; on a slow machine the model reads some thousand tokens before that."""


def own_corpus(tenant: Tenant, name: str) -> Path:
    """The folder of a corpus that the user may change.

    Raises:
        InputError: that is no name.
        AccessError: it is shared, and nobody may.
        MissingError: there is none.
    """
    folder = tenant.own_corpus(name)
    if not CorpusFolder(folder).exists:
        if name in tenant.settings.shared:
            raise AccessError("this corpus is shared, and nobody may change it", is_known=True)
        raise MissingError("there is no such corpus", given=name, hint="GET /v1/corpora lists yours")
    return folder


def create(
    tenant: Tenant,
    name: str,
    choice: ModelChoice,
    encoder: Encoder,
    wanted: Mapping[str, object],
    budget_bytes: int | None = None,
) -> Path:
    """Makes an empty corpus; its settings are checked against the model now, and hold for all that is ingested.

    Raises:
        InputError: that is no name.
        UsageError: a setting is out of range, or the model cannot do it.
        CorpusError: there is one of this name.
        LimitError: the user has too many.
    """
    folder = tenant.corpora / check_name(name)
    if CorpusFolder(folder).exists or name in tenant.settings.shared:
        raise CorpusError("there is a corpus of this name already", given=name, hint="choose another name")
    if sum(1 for _ in _own(tenant)) >= MOST_CORPORA:
        raise LimitError("you have too many corpora", expected=f"at most {MOST_CORPORA}", hint="delete one")
    with in_requests_words(folder, name):
        with guarded(tenant.corpora):
            make_private(tenant.corpora)
        request = IndexRequest((), folder, choice, encoder=encoder, wanted=wanted, budget_bytes=budget_bytes)
        create_corpus(request)
        write_atomically(_note(folder), json.dumps({"created": time.time()}).encode())
    return folder


def describe_all(tenant: Tenant) -> list[dict[str, object]]:
    """The user's corpora, then those that are shared; one that is damaged says so instead of what it holds."""
    found = [(folder, folder.name, False) for folder in _own(tenant)]
    names = {name for _, name, _ in found}
    found += [(folder, name, True) for name, folder in sorted(tenant.settings.shared.items()) if name not in names]
    described = []
    for folder, name, is_shared in found:
        try:
            described.append(describe(folder, name, is_shared=is_shared))
        except MissingError:  # deleted meanwhile
            continue
        except PrecogError as error:
            told = reworded(error, folder, name)
            described.append({"name": name, "object": "corpus", "shared": is_shared, "error": told.to_json()})
    return described


def describe(folder: Path, name: str, *, is_shared: bool) -> dict[str, object]:
    """What a corpus holds, what made it, and what it takes.

    Raises:
        MissingError: it has just been deleted.
        CorpusError: it is damaged.
    """
    with in_requests_words(folder, name), CorpusStore.open(folder) as store:
        size, made_with = store.size(), settings_of(store)
        return {
            "name": name,
            "object": "corpus",
            "shared": is_shared,
            "created": None if is_shared else _created(folder),
            "documents": size.num_documents,
            "failed": size.num_failed,
            "chunks": size.num_chunks,
            "tokens": size.num_tokens,
            "states": size.num_states,
            "bytes": size.disk_bytes,
            "state_bytes": store.layout.state_bytes,
            "budget_bytes": store.state_budget_bytes,
            "quality": made_with.quality,
            "codec": made_with.codec,
            "layers": made_with.layers,
            "chunk_tokens": made_with.chunk_tokens,
            "overlap": made_with.overlap,
            "strategy": made_with.strategy,
            "keys": made_with.keys,
            "model": title_of(made_with.model),
            "fingerprint": store.fingerprint.hex(),
            "generation": store.generation,
        }


def delete(services: Services, user: str, name: str) -> None:
    """Deletes a corpus with its jobs and all answers that have read it; whoever is asking it may finish first.

    Raises:
        MissingError, AccessError: see `own_corpus`.
        BusyError: another process writes to it, or a job does not end.
    """
    tenant = Tenant(services.settings, user)
    folder = own_corpus(tenant, name)
    services.jobs.stop_all(user, name, _JOB_SEC)
    with in_requests_words(folder, name), services.corpora.closed(folder, _WAIT_SEC):
        lock = WriterLock(folder, _WAIT_SEC)
        try:
            with guarded(tenant.removed):
                make_private(tenant.removed)
                doomed = tenant.removed / secrets.token_hex(8)
                folder.rename(doomed)  # gone in one step, whatever becomes of its files
                _note(folder).unlink(missing_ok=True)
                shutil.rmtree(doomed)
        finally:
            lock.release()
    services.jobs.forget_corpus(user, name)
    forget_using(services, user, "corpus", name)


def _own(tenant: Tenant) -> Iterator[Path]:
    if tenant.corpora.is_dir():
        yield from (path for path in sorted(tenant.corpora.iterdir()) if path.is_dir() and CorpusFolder(path).exists)


def _note(folder: Path) -> Path:
    """The file beside a corpus that says when it was made; no corpus has a dot in its name."""
    return folder.with_name(f"{folder.name}.json")


def _created(folder: Path) -> float | None:
    try:
        return float(json.loads(_note(folder).read_bytes())["created"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
