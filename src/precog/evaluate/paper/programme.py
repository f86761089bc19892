"""What is measured: every experiment of the paper by name, how it is built, and how much of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from precog.backbones.registry import find_model
from precog.bench.session import SessionSettings
from precog.bench.ttft import TtftSettings
from precog.engine.horizon import HorizonSettings
from precog.evaluate.depth import Depth, DepthSettings
from precog.evaluate.experiment import Experiment
from precog.evaluate.hotpot import Hotpot, HotpotSettings
from precog.evaluate.long_documents import LongDocuments, LongSettings
from precog.evaluate.natural_questions import NaturalQuestions, NaturalQuestionsSettings, sample_per_bin
from precog.evaluate.paper import measurements
from precog.evaluate.paper.apparatus import Apparatus
from precog.evaluate.pareto import Pareto, ParetoSettings
from precog.evaluate.squad import MODES, Squad, SquadSettings
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import sample_questions
from precog.evaluate.temperature import Temperature, TemperatureSettings
from precog.evaluate.theorem import QUICK as QUICK_THEOREM
from precog.evaluate.theorem import Theorem, TheoremSettings

__all__ = ["FULL", "PROGRAMME", "QUICK", "Entry", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        quick: whether it is only shown that everything works; such figures have wide intervals.
        theorem: of Theorem 1.
        squad: questions of the main table.
        altered: questions that states are altered for: depth, temperature, codecs.
        hotpot: questions; all of the file when None.
        nq_per_bin: questions of each length.
        long: documents made of articles.
        horizon: of the memory horizon.
        per_mission: utterances of each conversation that sub-clusters are measured on.
        ttft: of the times to the first token.
        session: of the starts of a session.
    """

    quick: bool
    theorem: TheoremSettings
    squad: int
    altered: int
    hotpot: int | None
    nq_per_bin: int
    long: LongSettings
    horizon: HorizonSettings
    per_mission: int
    ttft: TtftSettings
    session: SessionSettings


FULL = Sizes(
    quick=False,
    theorem=TheoremSettings(),
    squad=1000,
    altered=1000,
    hotpot=None,
    nq_per_bin=300,
    long=LongSettings(per_bin=100),
    horizon=HorizonSettings(samples=32),
    per_mission=1000,
    ttft=TtftSettings(),
    session=SessionSettings(),
)
QUICK = Sizes(
    quick=True,
    theorem=replace(QUICK_THEOREM, another_process=False),
    squad=12,
    altered=8,
    hotpot=3,
    nq_per_bin=3,
    long=LongSettings(per_bin=1),
    horizon=HorizonSettings(samples=2, longest_distance=256),
    per_mission=400,
    ttft=TtftSettings(200, 4, (4, 64, 128, 256, 512), repeats=10, long_repeats=1, answers=1, warm_up=2),
    session=SessionSettings((10, 1000), repeats=20, warm_up=2),
)
"""Under five minutes on two idle cores."""


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
    modules: tuple[str, ...] = ()


def _theorem(apparatus: Apparatus, sizes: Sizes) -> Experiment:
    chosen = replace(sizes.theorem, seed=apparatus.choice.seed)
    return Theorem(apparatus.backbone(), None, chosen, model=find_model(apparatus.choice.model))


def _squad(context: str, encode_mode: str) -> Callable[[Apparatus, Sizes], Experiment]:
    def build(apparatus: Apparatus, sizes: Sizes) -> Experiment:
        return Squad(
            sample_questions(apparatus.squad(), sizes.squad, apparatus.choice.seed),
            apparatus.squad(),
            apparatus.reader(encode_mode),
            SquadSettings(MODES, context, seed=apparatus.choice.seed),
            apparatus.encoder(),
            apparatus.folder,
        )

    return build


def _altered(apparatus: Apparatus, sizes: Sizes) -> list[Question]:
    return sample_questions(apparatus.squad(), sizes.altered, apparatus.choice.seed)


def _depth(apparatus: Apparatus, sizes: Sizes) -> Experiment:
    return Depth(_altered(apparatus, sizes), apparatus.backbone(), DepthSettings(seed=apparatus.choice.seed))


def _temperature(apparatus: Apparatus, sizes: Sizes) -> Experiment:
    return Temperature(
        _altered(apparatus, sizes),
        apparatus.squad(),
        apparatus.backbone(),
        TemperatureSettings(seed=apparatus.choice.seed),
        apparatus.encoder(),
        apparatus.folder,
    )


def _pareto(apparatus: Apparatus, sizes: Sizes) -> Experiment:
    return Pareto(_altered(apparatus, sizes), apparatus.backbone(), ParetoSettings(seed=apparatus.choice.seed))


def _hotpot(apparatus: Apparatus, sizes: Sizes) -> Experiment:
    questions = sample_questions(apparatus.hotpot(), sizes.hotpot, apparatus.choice.seed)
    chosen = HotpotSettings(seed=apparatus.choice.seed)
    return Hotpot(questions, apparatus.backbone(), chosen, apparatus.encoder())


def _nq(apparatus: Apparatus, sizes: Sizes) -> Experiment:
    everything, backbone, seed = apparatus.nq(), apparatus.backbone(), apparatus.choice.seed
    questions = sample_per_bin(everything, backbone.tokenizer, sizes.nq_per_bin, seed)
    return NaturalQuestions(questions, everything, backbone, NaturalQuestionsSettings(seed=seed), apparatus.encoder())


def _long(apparatus: Apparatus, sizes: Sizes) -> Experiment:
    chosen = replace(sizes.long, seed=apparatus.choice.seed)
    return LongDocuments(apparatus.squad(), apparatus.backbone(), chosen, apparatus.encoder())


PROGRAMME: dict[str, Entry] = {
    "theorem": Entry("Theorem 1 and Proposition 1", _theorem, ()),
    "squad": Entry("SQuAD, the right paragraph given", _squad("gold", "once")),
    "squad-twice": Entry("SQuAD, the right paragraph given, read twice", _squad("gold", "twice")),
    "squad-retrieved": Entry("SQuAD, retrieved from all paragraphs", _squad("retrieved", "once")),
    "squad-retrieved-twice": Entry("SQuAD, retrieved from all paragraphs, read twice", _squad("retrieved", "twice")),
    "depth": Entry("injection depth", _depth),
    "pareto": Entry("answers against bytes", _pareto),
    "temperature": Entry("temperature of the mean of three", _temperature),
    "hotpot": Entry("composition of several states", _hotpot, ("hotpot",)),
    "nq": Entry("passages of every length", _nq, ("nq",)),
    "long": Entry("long documents made of articles", _long),
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
