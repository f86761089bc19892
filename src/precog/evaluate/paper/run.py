"""A whole run: what is there is checked, what is missing is measured, and everything is written up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from precog import figures
from precog.bench.machine import Machine, git_commit
from precog.bench.model import subject_of
from precog.errors import StorageError, UsageError
from precog.evaluate.paper.apparatus import Apparatus, Choice
from precog.evaluate.paper.data_files import DATA_SETS, DataFiles, find_data
from precog.evaluate.paper.findings import Findings
from precog.evaluate.paper.job import Job, OnItems, measure_all
from precog.evaluate.paper.programme import PROGRAMME, Sizes
from precog.evaluate.paper.records import code_digest
from precog.evaluate.paper.writing_up import Paths, write_up
from precog.writing import marked_kinds

__all__ = ["Wanted", "reproduce_paper"]

RECORDS = "records"


@dataclass(frozen=True)
class Wanted:
    """What somebody asked for.

    Attributes:
        folder: of the run, made if it is not there.
        data: folder of the data sets; None for the shipped samples, which only a quick run takes.
        sizes: how much is measured.
        names: experiments, in any order; all when empty.
        processes: that share the work.
        choice: model, encoder and seed.
    """

    folder: Path
    data: Path | None
    sizes: Sizes
    names: Sequence[str]
    processes: int
    choice: Choice


def reproduce_paper(wanted: Wanted, on_items: OnItems = lambda done, total, what: None) -> Paths:
    """Run the paper again.

    Args:
        wanted: what somebody asked for.
        on_items: called with the number of items done, of all, and what is being done.

    Raises:
        UsageError: an experiment that is none, no data without ``quick``, or a package that is missing.
        InputError: a data set is not there or damaged.
        StorageError: the folder cannot be written.
    """
    names = _names(wanted)
    if wanted.data is None and not wanted.sizes.quick:
        titles = "; ".join(f"{entry.title} ({entry.names[0]})" for entry in DATA_SETS.values())
        hint = "name their folder; or --quick with the samples that are shipped"
        raise UsageError("--data is missing: the whole run needs the data sets", expected=titles, hint=hint)
    for name in names:
        for module in PROGRAMME[name].modules:
            if find_spec(module) is None:
                hint = "pip install 'precog-ssm[paper]'; or leave it out with --only"
                raise UsageError(
                    "an experiment needs a package that is not installed", given=f"{name}: {module}", hint=hint
                )
    data = find_data(wanted.data, [key for name in names for key in PROGRAMME[name].needs])
    records = _make(wanted.folder) / RECORDS
    records.mkdir(exist_ok=True)
    figures.check_target(wanted.folder / "figure.svg")
    apparatus = Apparatus(wanted.choice, data, records)
    job = Job(records, names, wanted.choice, data, wanted.sizes, code_digest(), wanted.processes)
    subject = subject_of(apparatus.backbone())
    reports: dict[str, Mapping[str, Any]] = {}
    origins: dict[str, Mapping[str, Any]] = {}
    for name, (experiment, kept) in measure_all(job, apparatus, on_items).items():
        found = kept.read()
        reports[name] = experiment.report([found[number] for number in range(len(experiment))])
        origins[name] = kept.origins()[0]
    findings = Findings(reports, subject, wanted.sizes.quick, origins)
    return write_up(wanted.folder, findings, _made_with(wanted, findings, job.code, data))


def _names(wanted: Wanted) -> tuple[str, ...]:
    unknown = sorted(set(wanted.names) - set(PROGRAMME))
    if unknown:
        raise UsageError("--only: no such experiment", given=", ".join(unknown), expected=", ".join(PROGRAMME))
    return tuple(name for name in PROGRAMME if not wanted.names or name in wanted.names)


def _make(folder: Path) -> Path:
    if marked_kinds(folder):
        given = f"{folder}, a {marked_kinds(folder)[0]}"
        raise UsageError("--out: a report is not written into that folder", given=given, expected="a folder of its own")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = error.strerror or str(error)
        raise StorageError("the folder of the report cannot be made", given=folder, hint=hint) from error
    return folder


def _load(findings: Findings) -> str:
    """How busy machines were: times are slower for it, answers are not."""
    most = max((float(origin["machine"]["load_average"] or 0) for origin in findings.origins.values()), default=0.0)
    processes = max((int(origin["processes"]) for origin in findings.origins.values()), default=1)
    return f"up to {processes} processes of this run at once, load average up to {most:.1f} when one began"


def _made_with(wanted: Wanted, findings: Findings, code: str, data: DataFiles) -> dict[str, str]:
    machine, subject = Machine.here(), findings.subject
    files = ", ".join(path.name for path in data.paths.values())
    measured = {
        f"{origin['machine']['accelerator'] or origin['machine']['cpu']}, {origin['machine']['system']}"
        for origin in findings.origins.values()
    }
    return {
        "model": f"{subject.name}: {subject.parameters:,} parameters, {subject.dtype}",
        "data": f"{'samples shipped with the package' if data.shipped else 'given'}: {files or 'none was needed'}",
        "size": "quick" if wanted.sizes.quick else "full",
        "measured on": "; ".join(sorted(measured)) or "nothing was measured",
        "code": f"{code[:16]} (SHA-256 of what measures)",
        "meanwhile": _load(findings),
        "written on": f"{machine.cpu}, {machine.cores} cores, {machine.system}, commit {str(git_commit())[:12]}",
        "command": f"precog reproduce --out DIR{' --quick' if wanted.sizes.quick else ''}"
        f"{'' if data.shipped else ' --data FOLDER'}"
        f"{'' if not wanted.names else ' --only ' + ','.join(findings.reports)}",
    }
