"""``/v1/memories/me``: what a user's memory holds; remembering, recalling and forgetting."""

import datetime
from dataclasses import replace
from threading import Event
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request

from precog.backbones.registry import title_of
from precog.errors import MissingError, UsageError
from precog.memory.contents import listed, stats_of, whole_row
from precog.memory.damage import damage_of
from precog.memory.forget import forget as forget_deposits
from precog.memory.keyed import sklearn_part
from precog.memory.made_with import encoder_of, prototypes_of, settings_of
from precog.memory.moment import parse_time
from precog.memory.panels import panels_json, panels_of
from precog.memory.purge import purge
from precog.memory.recall import Recaller, refreshed_or_why
from precog.memory.selection import Selection
from precog.memory.supersede import supersede as supersede_deposit
from precog.memory.utterance import Utterance
from precog.server import memory_models as models
from precog.server.depends import ServicesDep
from precog.server.memory_models import MAX_ID, ReadMemory, WriteMemory
from precog.server.remembering import remember_all
from precog.server.user_memory import WAIT_SEC
from precog.server.work import Job

router = APIRouter(prefix="/v1/memories/me", tags=["memories"])
_Id = Annotated[int, Path(ge=1, le=MAX_ID, description="Number of the deposit.")]


@router.get("", operation_id="memory_stats")
async def stats(request: Request, services: ServicesDep, memory: ReadMemory) -> models.Stats:
    """How much the memory holds, and where."""

    def work(job: Job) -> models.Stats:
        with memory.reading() as store:
            told = models.Stats.model_validate(stats_of(store).to_json())
        told.settings["model"] = title_of(str(told.settings["model"]))  # where it lies is the server's own affair
        return told

    return await services.workers.run(request, work)


@router.post("/deposits", operation_id="remember")
async def remember(
    said: models.Said, request: Request, services: ServicesDep, memory: WriteMemory
) -> models.Remembered:
    """Remembers words: the answer comes when they are on the disk; the same is remembered once."""
    at = datetime.datetime.now().astimezone() if said.time is None else parse_time(said.time)
    turn = Utterance(said.text, at.replace(microsecond=0), said.speaker, said.place)

    def work(job: Job) -> models.Remembered:
        return remember_all(memory, job, [turn], said.importance)

    return await services.workers.run(request, work)


@router.get("/deposits", operation_id="list_deposits")
async def deposits(
    request: Request,
    services: ServicesDep,
    memory: ReadMemory,
    domain: Annotated[str | None, Query(description="Only those of this domain.")] = None,
    speaker: Annotated[str | None, Query(description="Only what this speaker said.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most deposits, the newest ones.")] = 100,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Only those of a smaller number.")] = None,
) -> models.Deposits:
    """The newest deposits that fit, the newest last; ``older`` leads to those before them."""

    def work(job: Job) -> models.Deposits:
        with memory.reading() as store:
            found = listed(store, domain=domain, speaker=speaker, limit=limit, before=before)
        older = found.deposits[0].id if found.has_older else None
        return models.Deposits.model_validate({**found.to_json(), "older": older})

    return await services.workers.run(request, work)


@router.get("/deposits/{deposit_id}", operation_id="get_deposit")
async def deposit(deposit_id: _Id, request: Request, services: ServicesDep, memory: ReadMemory) -> models.WholeDeposit:
    """One deposit whole."""

    def work(job: Job) -> models.WholeDeposit:
        with memory.reading() as store:
            row = whole_row(store, deposit_id)
        if row is None:
            raise MissingError(
                "there is no such deposit", given=deposit_id, hint="GET /v1/memories/me/deposits lists them"
            )
        return models.WholeDeposit.model_validate(row)

    return await services.workers.run(request, work)


@router.post("/recall", operation_id="recall")
async def recall(asked: models.Recall, request: Request, services: ServicesDep, memory: ReadMemory) -> models.Recalled:
    """What was said that bears on a question, by meaning and by words; no model is asked."""

    def work(job: Job) -> models.Recalled:
        with memory.reading() as store:
            settings = settings_of(store)
            recaller = Recaller(store, encoder_of(settings, services.encoder))
            probes = settings.probes if asked.probes is None else asked.probes
            found = recaller.recall(asked.query, asked.top_k, probes=probes)
        return models.Recalled.model_validate(found.to_json())

    return await services.workers.run(request, work)


@router.post("/supersede", operation_id="supersede")
async def supersede(
    asked: models.Supersede, request: Request, services: ServicesDep, memory: WriteMemory
) -> models.Superseded:
    """Lets one deposit hold instead of another, which stays as history and is recalled no more."""

    def work(job: Job) -> models.Superseded:
        with memory.writing(job.cancelled) as opened:
            supersede_deposit(opened.store, asked.old, asked.new)
            refreshed_or_why(opened.store, opened.settings.encoder_fingerprint)
        return models.Superseded(superseded=asked.old, by=asked.new)

    return await services.workers.run(request, work)


@router.post("/forget", operation_id="forget")
async def forget(
    asked: models.Forget, request: Request, services: ServicesDep, memory: WriteMemory
) -> models.Forgotten:
    """Forgets deposits with all that was made of them; with ``proof`` every byte is searched for what they left."""
    with memory.told():
        selection = _selection(asked)

    def work(job: Job) -> models.Forgotten:
        # not cancelled with its client: what is to be forgotten is forgotten whether anybody waits or not
        with memory.writing(Event()) as opened:
            chosen = selection.find(opened.store, Recaller(opened.store, opened.encoder))
            damaged = selection.damaged(opened.store)
            responses = memory.forget_what_was_made_of_it()
            report = forget_deposits(opened, chosen, damaged=damaged, proof=asked.proof)
        responses += memory.forget_what_was_made_of_it()  # stored while this went on
        told = {**report.to_json(), "complete": report.is_complete, "responses": responses}
        return models.Forgotten.model_validate(told)

    return await services.workers.run(request, work)


def _selection(asked: models.Forget) -> Selection:
    conditions = {"query": asked.query, "before": asked.before, "after": asked.after, "speaker": asked.speaker}
    for name, value in conditions.items():
        if value is not None and not value.strip():
            raise UsageError("a field says nothing", given=f'{name} ""', expected="words, or no such field")
    chosen = bool(asked.ids) or any(value is not None for value in conditions.values())
    if chosen == asked.everything:
        expected = "ids, query, before, after or speaker, or all alone"
        raise UsageError("what is to be forgotten?", given="both" if chosen else "nothing", expected=expected)
    return Selection(
        ids=tuple(asked.ids),
        query=asked.query,
        top_k=asked.top_k,
        after=None if asked.after is None else parse_time(asked.after),
        before=None if asked.before is None else parse_time(asked.before),
        speaker=asked.speaker,
        everything=asked.everything,
    )


@router.delete("", operation_id="purge_memory")
async def purge_all(request: Request, services: ServicesDep, memory: WriteMemory) -> models.Purged:
    """Removes the whole memory: its folder is overwritten and deleted."""

    def work(job: Job) -> models.Purged:
        with memory.told():
            memory.check_there()
            responses = memory.forget_what_was_made_of_it()
            done = purge(memory.folder, wait_sec=WAIT_SEC)
        responses += memory.forget_what_was_made_of_it()
        folder = str(memory.folder)
        # what other users' interrupted purges have left is not this user's to know
        own = replace(
            done,
            kept=[name.removeprefix(f"{folder}/") for name in done.kept],
            leftovers=[line for line in done.leftovers if memory.folder.name in line],
        )
        return models.Purged.model_validate({**own.to_json(), "responses": responses})

    return await services.workers.run(request, work)


@router.get("/map", operation_id="memory_map")
async def memory_map(
    request: Request,
    services: ServicesDep,
    memory: ReadMemory,
    domain: Annotated[str | None, Query(description="Only this domain.")] = None,
    method: Annotated[Literal["tsne", "pca"], Query(description="How keys are laid out in the plane.")] = "tsne",
    seed: Annotated[int, Query(ge=0, le=MAX_ID, description="Of t-SNE.")] = 0,
) -> models.Map:
    """The domains with their sub-clusters and the groups that emerge, laid out on planes; needs scikit-learn."""

    def work(job: Job) -> models.Map:
        sklearn_part("cluster")
        with memory.reading() as store:
            panels = panels_of(store, prototypes_of(store), domain, projection=method, seed=seed)
            damage = damage_of(store)
        laid_out = [
            models.Panel(
                domain=panel.title,
                points=[(float(x), float(y)) for x, y in panel.points],
                subclusters=list(panel.labels),
                emergent={name: list(rows) for name, rows in panel.emergent.items()},
                note=panel.note,
                ids=list(panel.ids),
            )
            for panel in panels
        ]
        return models.Map.model_validate({**panels_json(panels), **damage.to_json(), "panels": laid_out})

    return await services.workers.run(request, work)
