"""The data sets that the paper's experiments need: which file each is, where to get it, what may stand in for it."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from precog.errors import InputError, UsageError

__all__ = ["DATA_SETS", "DataFiles", "DataSet", "find_data"]

FOLDERS = ("", "qa", "dialog", "squad", "hotpot", "nq")
"""Below the folder that is named, where files are looked for."""


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
        key: as experiments ask for it.
        title: as people call it.
        names: file names it is known by, the first found counts.
        source: where to get it, in a line.
        sample: the small part of it that is shipped.
    """

    key: str
    title: str
    names: tuple[str, ...]
    source: str
    sample: str


DATA_SETS: dict[str, DataSet] = {
    entry.key: entry
    for entry in (
        DataSet(
            "squad",
            "SQuAD v1.1 dev",
            ("squad1.1_dev.jsonl.gz", "dev-v1.1.json.gz", "dev-v1.1.json"),
            "dev-v1.1.json from rajpurkar.github.io/SQuAD-explorer",
            "squad.jsonl.gz",
        ),
        DataSet(
            "hotpot",
            "HotpotQA dev, distractor setting",
            ("hotpotqa_10para.jsonl.gz", "hotpot_dev_distractor_v1.json.gz", "hotpot_dev_distractor_v1.json"),
            "hotpot_dev_distractor_v1.json from hotpotqa.github.io",
            "hotpot.jsonl.gz",
        ),
        DataSet(
            "nq",
            "Natural Questions dev",
            ("nq_qed_dev.jsonl.gz", "v1.0-simplified_nq-dev-all.jsonl.gz", "v1.0-simplified_nq-dev-all.jsonl"),
            "the simplified v1.0 dev file from ai.google.com/research/NaturalQuestions",
            "natural_questions.jsonl.gz",
        ),
        DataSet(
            "transcripts",
            "transcripts of several conversations",
            ("spacelog_nasa_transcripts.jsonl.gz", "transcripts.jsonl.gz", "transcripts.jsonl"),
            "the Mercury, Gemini and Apollo transcripts of github.com/Spacelog/Spacelog as JSON lines with mission,"
            " speaker and text",
            "transcripts.jsonl.gz",
        ),
    )
}


@dataclass(frozen=True)
class DataFiles:
    """Where the data of a run lie.

    Attributes:
        paths: by key of the data set.
        shipped: whether they are the small samples that come with the package.
    """

    paths: Mapping[str, Path]
    shipped: bool

    def __getitem__(self, key: str) -> Path:
        return self.paths[key]


def find_data(folder: Path | None, keys: Iterable[str]) -> DataFiles:
    """The files of data sets.

    Args:
        folder: where they lie, or in a folder of it; the shipped samples when None.
        keys: of the data sets that are needed.

    Raises:
        UsageError: the folder is none.
        InputError: a data set is not there; the message names the file, where to get it, and what it may be called.
    """
    wanted = [DATA_SETS[key] for key in dict.fromkeys(keys)]
    if folder is None:
        return DataFiles({entry.key: _shipped(entry) for entry in wanted}, shipped=True)
    if not folder.is_dir():
        raise UsageError("--data: there is no such folder", given=folder, expected="the folder of the data sets")
    found = {entry.key: _found(folder, entry) for entry in wanted}
    missing = [entry for entry in wanted if found[entry.key] is None]
    if missing:
        raise InputError(
            f"{', '.join(entry.title for entry in missing)}: not in this folder",
            given=folder,
            expected=" and ".join(" or ".join(entry.names) for entry in missing),
            hint=f"get {'; '.join(entry.source for entry in missing)}; or leave out what needs it with --only",
        )
    return DataFiles({key: path for key, path in found.items() if path is not None}, shipped=False)


def _found(folder: Path, entry: DataSet) -> Path | None:
    places = (folder / below / name for name in entry.names for below in FOLDERS)
    return next((path for path in places if path.is_file()), None)


def _shipped(entry: DataSet) -> Path:
    place = resources.files("precog.evaluate") / "data" / entry.sample
    with ExitStack() as stack:  # the package is never run from an archive: the path stays when the stack is closed
        path = stack.enter_context(resources.as_file(place))
    if not path.is_file():
        raise InputError(f"the sample of {entry.title} is not installed", given=path, hint="install the package again")
    return path
