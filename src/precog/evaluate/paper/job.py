"""Measures experiments in several processes, from wherever a run was left.

Items are dealt out by number. Every process builds the experiments for itself and appends what it measured to a file of
its own, so that nothing is shared but a folder, and a run that was killed has lost the items it was at.
"""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from precog import errors
from precog.bench.machine import Machine, git_commit
from precog.errors import PrecogError
from precog.evaluate.experiment import Experiment
from precog.evaluate.paper.apparatus import Apparatus, Choice
from precog.evaluate.paper.data_files import DataFiles
from precog.evaluate.paper.programme import PROGRAMME, Sizes
from precog.evaluate.paper.records import Records

__all__ = ["Job", "OnItems", "measure_all", "share"]

POLL_SEC = 0.5
OnItems = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Job:
    """What is measured, and how.

    Attributes:
        folder: of records.
        names: entries of the programme, in its order.
        choice: model and encoder.
        data: files of the data sets.
        sizes: of the experiments.
        code: `code_digest` of what measures.
        processes: that share the items; those of one process run in this one.
    """

    folder: Path
    names: tuple[str, ...]
    choice: Choice
    data: DataFiles
    sizes: Sizes
    code: str
    processes: int = 1

    def build(self, apparatus: Apparatus, name: str) -> tuple[Experiment, Records]:
        """An experiment of the job, and what is kept of it."""
        experiment = PROGRAMME[name].build(apparatus, self.sizes)
        return experiment, Records(self.folder, name, experiment, self.code)


def measure_all(job: Job, apparatus: Apparatus, on_items: OnItems) -> dict[str, tuple[Experiment, Records]]:
    """Measure what is missing, the experiments that are timed last and alone.

    Args:
        job: what is measured.
        apparatus: of this process.
        on_items: called with the number of items done, of all, and the name of an experiment that is not finished.

    Returns:
        The experiments by name, each with its records, which are complete.

    Raises:
        PrecogError: as the experiments; what was measured until then is kept.
    """
    built: dict[str, tuple[Experiment, Records]] = {}
    for name in job.names:
        on_items(0, 0, f"preparing {name}")
        built[name] = job.build(apparatus, name)
    total = sum(len(experiment) for experiment, _ in built.values())
    together = [name for name in job.names if not PROGRAMME[name].alone]
    missing = [name for name in together if len(built[name][1].read()) < len(built[name][0])]
    if missing and job.processes > 1:
        share(job, missing, lambda: on_items(*_progress(built, total)))
    for name in job.names:
        experiment, records = built[name]
        _measure(experiment, records, lambda: on_items(*_progress(built, total)))
    return built


def _progress(built: Mapping[str, tuple[Experiment, Records]], total: int) -> tuple[int, int, str]:
    kept = {name: records.count() for name, (_, records) in built.items()}
    unfinished = [name for name, (experiment, _) in built.items() if kept[name] < len(experiment)]
    return sum(kept.values()), total, unfinished[0] if unfinished else "writing"


def _measure(
    experiment: Experiment,
    records: Records,
    told: Callable[[], None] = lambda: None,
    *,
    share: tuple[int, int] = (0, 1),
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Measure what is missing of an experiment: of the items that number ``share[0]`` of ``share[1]`` is dealt."""
    done = records.read()
    mine = [number for number in range(len(experiment)) if number % share[1] == share[0] and number not in done]
    if not mine:
        return
    told()
    last_told = time.monotonic()
    with records.write(_origin(experiment, records.code, share[1])) as file:
        for number in mine:
            if not is_wanted():
                return
            file.add(number, experiment.measure(number))
            if time.monotonic() - last_told > POLL_SEC:
                told()
                last_told = time.monotonic()


def _origin(experiment: Experiment, code: str, processes: int) -> dict[str, object]:
    return {
        "experiment": experiment.name,
        "settings": experiment.settings,
        "machine": Machine.here().to_json(),
        "processes": processes,
        "commit": git_commit(),
        "code": code,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
    }


def share(job: Job, names: Sequence[str], told: Callable[[], None]) -> None:
    """Deal the items of experiments out to processes, and wait for them.

    Raises:
        PrecogError: one of them failed; the others are stopped.
    """
    context = multiprocessing.get_context("spawn")  # CUDA and thread pools do not survive a fork
    running: list[tuple[BaseProcess, Connection]] = []
    try:
        for number in range(job.processes):
            ours, theirs = context.Pipe(duplex=False)
            process: BaseProcess = context.Process(target=_work, args=(job, tuple(names), number, theirs))
            process.start()
            theirs.close()
            running.append((process, ours))
        while any(process.is_alive() for process, _ in running):
            time.sleep(POLL_SEC)
            told()
            _check(running)
        _check(running)
    finally:
        for process, _ in running:
            if process.is_alive():
                process.terminate()
        for process, ours in running:
            process.join()
            ours.close()


def _check(running: Sequence[tuple[BaseProcess, Connection]]) -> None:
    for process, ours in running:
        if (told := _message(ours)) is not None:
            kind = getattr(errors, told.pop("kind"))
            raise kind(told.pop("message"), **told)
        if process.exitcode:
            given = f"exit code {process.exitcode}"
            hint = "run it again, it goes on; with fewer --processes if memory was short"
            raise PrecogError("a process of the run has ended early", given=given, hint=hint)


def _message(ours: Connection) -> dict[str, Any] | None:
    """What a process has told, if it has told anything."""
    if not ours.poll():
        return None
    try:
        told: dict[str, Any] = json.loads(ours.recv_bytes())
    except EOFError:  # it has ended
        return None
    return told


def _work(job: Job, names: Sequence[str], number: int, told: Connection) -> None:
    """What each process does; an error becomes a message to the first one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is interrupted, and ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(job.choice.threads or 1)
    first = os.getppid()  # it may be killed: then nobody waits for more
    apparatus = Apparatus(job.choice, job.data, job.folder)
    try:
        for place, name in enumerate(names):
            experiment, records = job.build(apparatus, name)
            # experiments of one item are not all dealt to the first process
            mine = ((number + place) % job.processes, job.processes)
            _measure(experiment, records, share=mine, is_wanted=lambda: os.getppid() == first)
    except PrecogError as error:
        parts = {key: value for key, value in error.to_json().items() if key != "code"}
        told.send_bytes(json.dumps({**parts, "kind": type(error).__name__}).encode())
