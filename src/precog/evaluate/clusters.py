"""How well sub-clusters built from some conversations hold another one; paper, Table 10 and its appendix.

Sub-clusters are built by k-means within each domain from all recordings but one. The utterances of that one are routed
to them, and for each domain it is told how far apart its groups lie, how many fit none, and which groups emerge among
those. The paper's taxonomy and its labels were made by another language model; here nothing but the keys decides.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int

from precog.encoders.encoder import Encoder
from precog.errors import InputError, UsageError
from precog.evaluate.separation import separation
from precog.evaluate.utterances import Spoken
from precog.memory.domains import OTHERS, read_seeds
from precog.memory.emergent import LEAST_MEMBERS, Candidate, find_emergent
from precog.memory.fit import FitSettings, fit
from precog.memory.keyed import Keyed
from precog.memory.prototypes import Prototypes, from_seeds, mean_key
from precog.memory.routing import FITTED_TEMPERATURE, THRESHOLD, Route, route_all

__all__ = ["ClusterReport", "ClusterSettings", "DomainReport", "evaluate_clusters", "sample_spoken"]


@dataclass(frozen=True)
class ClusterSettings:
    """What is measured.

    Attributes:
        held_out: the recording that is routed; the others build the sub-clusters.
        per_mission: the most utterances taken of each recording, spread evenly by chance.
        limit: the most that are routed of the held-out one; None for as many as of the others.
        least_words: shorter utterances are left out: "Roger." belongs nowhere.
        subclusters: J, per domain.
        temperature: of the routing probability.
        threshold: below which a text goes to the others.
        least_members: of a group that emerges.
        seed: of the sample, of k-means and of the random groups.
    """

    held_out: str
    per_mission: int = 1000
    limit: int | None = None
    least_words: int = 5
    subclusters: int = 10
    temperature: float = FITTED_TEMPERATURE
    threshold: float = THRESHOLD
    least_members: int = LEAST_MEMBERS
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            UsageError: a number is out of its range.
        """
        for name, least in (("per_mission", 1), ("limit", 1), ("least_words", 1), ("subclusters", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} is out of its range", given=value, expected=f"≥ {least}")
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise UsageError("the routing temperature is a positive number", given=self.temperature)
        if not 0 <= self.threshold <= 1:
            raise UsageError("the routing threshold is a probability", given=self.threshold, expected="from 0 to 1")


@dataclass(frozen=True, eq=False)
class DomainReport:
    """One domain of the held-out recording.

    Attributes:
        name: of the domain.
        rows: numbers of the routed utterances that are its own.
        labels: the sub-cluster of each, or None.
        counts: sub-cluster ▸ utterances; also those with none.
        num_others: utterances that fit no sub-cluster.
        ratio: inter / intra of Euclidean distances, over the utterances that fit one; None where it is undefined.
        cosine_ratio: the same of cosine distances (see `separation`).
        random_ratio: the first with the groups dealt out by chance, their sizes kept.
        emergent: groups that emerge among the others; their members are numbers of routed utterances.
        num_built_from: utterances of the other recordings that its sub-clusters were fitted to.
    """

    name: str
    rows: Int[np.ndarray, " n"]
    labels: tuple[str | None, ...]
    counts: dict[str, int]
    num_others: int
    ratio: float | None
    cosine_ratio: float | None
    random_ratio: float | None
    emergent: tuple[Candidate, ...]
    num_built_from: int

    def ratio_of(self, points: Float32[np.ndarray, "n D"]) -> float | None:
        """Inter / intra of Euclidean distances between other points for the same utterances, such as those of a map."""
        names = list(self.counts)
        settled = [place for place, label in enumerate(self.labels) if label is not None]
        numbers = np.array([names.index(self.labels[place] or "") for place in settled], dtype=np.int64)
        return separation(points[settled], numbers)

    def outlines(self) -> dict[str, list[int]]:
        """Each group that emerges ▸ places of its members among the domain's utterances."""
        place_of = {int(row): place for place, row in enumerate(self.rows)}
        return {group.name: [place_of[member] for member in group.member_ids] for group in self.emergent}

    def to_json(self) -> dict[str, object]:
        """Counts and ratios; of the groups that emerge, name and size."""
        return {
            "n": len(self.rows),
            "built_from": self.num_built_from,
            "ratio": self.ratio,
            "cosine_ratio": self.cosine_ratio,
            "random_ratio": self.random_ratio,
            "others": self.num_others,
            "subclusters": self.counts,
            "emergent": [
                {"name": group.name, "size": len(group.member_ids), "cohesion": group.cohesion}
                for group in self.emergent
            ],
        }


@dataclass(frozen=True, eq=False)
class ClusterReport:
    """The whole of it.

    Attributes:
        settings: what was measured.
        missions: recording ▸ utterances taken of it.
        domains: in the order of the prototypes.
        keys: of the routed utterances.
        prototypes: that were built.
    """

    settings: ClusterSettings
    missions: dict[str, int]
    domains: tuple[DomainReport, ...]
    keys: Float32[np.ndarray, "N E"]
    prototypes: Prototypes

    def to_json(self) -> dict[str, object]:
        """What ``precog eval clusters --json`` prints."""
        chosen = self.settings
        return {
            "held_out": chosen.held_out,
            "n": len(self.keys),
            "built_from": {name: count for name, count in self.missions.items() if name != chosen.held_out},
            "temperature": chosen.temperature,
            "threshold": chosen.threshold,
            "seed": chosen.seed,
            "others": sum(domain.num_others for domain in self.domains),
            "domains": {domain.name: domain.to_json() for domain in self.domains},
        }


def sample_spoken(spoken: Sequence[Spoken], settings: ClusterSettings) -> list[Spoken]:
    """The utterances that are used: long enough, not more than so many of each recording, in the file's order.

    Raises:
        InputError: the held-out recording is not among them, or is the only one.
    """
    rows_of: dict[str, list[int]] = {}
    for row, utterance in enumerate(spoken):
        if len(utterance.text.split()) >= settings.least_words:
            rows_of.setdefault(utterance.mission, []).append(row)
    if settings.held_out not in rows_of or len(rows_of) < 2:
        raise InputError(
            "the recording to hold out is not there, or is the only one",
            given=settings.held_out,
            expected=", ".join(rows_of) or f"utterances of at least {settings.least_words} words",
        )
    taken: list[int] = []
    for number, (mission, rows) in enumerate(rows_of.items()):
        most = settings.per_mission
        if mission == settings.held_out and settings.limit is not None:
            most = settings.limit
        generator = np.random.default_rng([settings.seed, number])
        chosen = generator.permutation(len(rows))[:most]
        taken += [rows[place] for place in sorted(chosen.tolist())]
    return [spoken[row] for row in sorted(taken)]


def evaluate_clusters(
    spoken: Sequence[Spoken],
    encoder: Encoder,
    settings: ClusterSettings,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> ClusterReport:
    """Build, route and measure.

    Args:
        spoken: what `sample_spoken` takes from.
        encoder: makes the keys.
        settings: what is measured.
        advance: called with how many utterances are encoded, of how many.

    Raises:
        InputError: the held-out recording is not there.
        UsageError: scikit-learn is not installed.
    """
    sampled = sample_spoken(spoken, settings)
    base = from_seeds(read_seeds(), encoder)
    keys = np.zeros((len(sampled), encoder.dim), np.float32)
    for row, utterance in enumerate(sampled):
        keys[row] = mean_key(encoder.encode_passages([utterance.text])[0])
        advance(row + 1, len(sampled))
    is_held_out = np.array([utterance.mission == settings.held_out for utterance in sampled])
    building, routed = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
    everything = Keyed(tuple(range(len(sampled))), keys, tuple(u.text for u in sampled), (None,) * len(sampled))
    prototypes = fit(everything.take(building), base, FitSettings(per_domain=settings.subclusters, seed=settings.seed))
    held = Keyed(tuple(range(len(routed))), keys[routed], everything.take(routed).texts, (None,) * len(routed))
    routes = route_all(held.keys, prototypes, temperature=settings.temperature, threshold=settings.threshold)
    missions: dict[str, int] = {}
    for utterance in sampled:
        missions[utterance.mission] = missions.get(utterance.mission, 0) + 1
    domains = tuple(_domain(name, held, routes, prototypes, settings) for name in prototypes.domains)
    return ClusterReport(settings, missions, domains, held.keys, prototypes)


def _domain(
    name: str, held: Keyed, routes: Sequence[Route], prototypes: Prototypes, settings: ClusterSettings
) -> DomainReport:
    rows = np.array([row for row, found in enumerate(routes) if found.domain == name], dtype=np.int64)
    labels = tuple(None if routes[row].subcluster == OTHERS else routes[row].subcluster for row in rows)
    own = prototypes.rows_of(name)
    names = [prototypes.subclusters[row].name for row in own]
    counts = {label: labels.count(label) for label in names}
    settled = [place for place, label in enumerate(labels) if label is not None]
    others = [place for place, label in enumerate(labels) if label is None]
    numbers = np.array([names.index(labels[place] or "") for place in settled], dtype=np.int64)
    keys = held.keys[rows[settled]]
    dealt = np.random.default_rng(settings.seed).permutation(numbers)
    emergent = find_emergent(
        held.take(rows[others]),
        name,
        least_members=settings.least_members,
        rest=[held.texts[rows[place]] for place in settled],
        taken=names,
    )
    return DomainReport(
        name,
        rows,
        labels,
        counts,
        len(others),
        separation(keys, numbers),
        separation(keys, numbers, "cosine"),
        separation(keys, dealt),
        tuple(emergent),
        sum(len(prototypes.members[row]) for row in own),
    )
