"""What is measured: every experiment of the paper by name, how it is built, and how much of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from precog.evaluate.experiment import Experiment, Record
from precog.evaluate.paper.apparatus import Apparatus
from precog.evaluate.squad import MODES, Squad, SquadSettings
from precog.evaluate.squad_data import sample_questions

__all__ = ["FULL", "PROGRAMME", "QUICK", "Entry", "Measurement", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        squad: questions of the main table and of what is measured on SQuAD.
    """

    squad: int = 1000


FULL = Sizes()
QUICK = Sizes(squad=40)


class Measurement:
    """A measurement of one item: all of it, or nothing.

    Args:
        name: of the experiment.
        settings: that decide the outcome.
        outcome: measures it.
    """

    def __init__(self, name: str, settings: Mapping[str, object], outcome: Callable[[], Mapping[str, object]]) -> None:
        self.name, self.settings, self._outcome = name, settings, outcome

    def __len__(self) -> int:
        return 1

    def measure(self, number: int) -> Record:
        """The whole of it."""
        return self._outcome()

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """The record itself."""
        return dict(records[0])


@dataclass(frozen=True)
class Entry:
    """An experiment of the paper.

    Attributes:
        title: what is measured, in a line.
        build: makes it.
        needs: data sets.
        alone: whether nothing else may run meanwhile, because it is timed.
        modules: packages beyond the product's own that it needs.
    """

    title: str
    build: Callable[[Apparatus, Sizes], Experiment]
    needs: tuple[str, ...] = ("squad",)
    alone: bool = False
    modules: tuple[str, ...] = field(default=())


def _squad(context: str, encode_mode: str) -> Callable[[Apparatus, Sizes], Experiment]:
    def build(apparatus: Apparatus, sizes: Sizes) -> Experiment:
        everything = apparatus.squad()
        return Squad(
            sample_questions(everything, sizes.squad, apparatus.choice.seed),
            everything,
            apparatus.reader(encode_mode),
            SquadSettings(MODES, context, seed=apparatus.choice.seed),
            apparatus.encoder(),
            apparatus.folder,
        )

    return build


PROGRAMME: dict[str, Entry] = {
    "squad": Entry("SQuAD, the right paragraph given", _squad("gold", "once")),
    "squad-twice": Entry("SQuAD, the right paragraph given, read twice", _squad("gold", "twice")),
    "squad-retrieved": Entry("SQuAD, retrieved from all paragraphs", _squad("retrieved", "once")),
    "squad-retrieved-twice": Entry("SQuAD, retrieved from all paragraphs, read twice", _squad("retrieved", "twice")),
}
