"""What is measured: every experiment of the paper by name, how it is built, and how much of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from precog.bench.session import SessionSettings
from precog.bench.ttft import TtftSettings
from precog.engine.horizon import HorizonSettings
from precog.evaluate.experiment import Experiment
from precog.evaluate.paper import measurements
from precog.evaluate.paper.apparatus import Apparatus
from precog.evaluate.squad import MODES, Squad, SquadSettings
from precog.evaluate.squad_data import sample_questions

__all__ = ["FULL", "PROGRAMME", "QUICK", "Entry", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        quick: whether it is only shown that everything works; such figures have wide intervals.
        squad: questions of the main table and of what is measured on SQuAD.
        horizon: of the memory horizon.
        per_mission: utterances of each conversation that sub-clusters are measured on.
        ttft: of the times to the first token.
        session: of the starts of a session.
    """

    quick: bool
    squad: int
    horizon: HorizonSettings
    per_mission: int
    ttft: TtftSettings
    session: SessionSettings


FULL = Sizes(
    quick=False,
    squad=1000,
    horizon=HorizonSettings(samples=32),
    per_mission=1000,
    ttft=TtftSettings(),
    session=SessionSettings(),
)
QUICK = Sizes(
    quick=True,
    squad=24,
    horizon=HorizonSettings(samples=2, longest_distance=512),
    per_mission=400,
    ttft=TtftSettings(200, 4, (4, 64, 128, 256, 512), repeats=10, long_repeats=1, answers=1, warm_up=2),
    session=SessionSettings((10, 1000), repeats=20, warm_up=2),
)


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
    "horizon": Entry(
        "how far back the model remembers", lambda apparatus, sizes: measurements.horizon(apparatus, sizes.horizon)
    ),
    "clusters": Entry(
        "sub-clusters of a memory",
        lambda apparatus, sizes: measurements.clusters(apparatus, sizes.per_mission),
        ("transcripts",),
        modules=("sklearn",),
    ),
    "ttft": Entry(
        "time to the first token", lambda apparatus, sizes: measurements.ttft(apparatus, sizes.ttft), (), alone=True
    ),
    "session": Entry(
        "the start of a session",
        lambda apparatus, sizes: measurements.session(apparatus, sizes.session),
        (),
        alone=True,
    ),
}
