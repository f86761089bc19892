"""Measurements of one item: the horizon of a model's memory, sub-clusters of a conversation, and what is timed."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from precog.bench.session import SessionSettings, bench_session
from precog.bench.ttft import TtftSettings, bench_ttft
from precog.engine.horizon import HorizonSettings, measure_horizon
from precog.evaluate.clusters import ClusterReport, ClusterSettings, evaluate_clusters
from precog.evaluate.experiment import Record
from precog.evaluate.paper.apparatus import Apparatus
from precog.evaluate.utterances import read_spoken
from precog.memory.projection import note_on, project

__all__ = ["Measurement", "clusters", "horizon", "session", "ttft"]

HORIZON_TOKENS = 4096
MAPPED = "spatial"
"""The domain of the paper's Figure 8."""


class Measurement:
    """An experiment of one item: all of it, or nothing.

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


def _made_with(apparatus: Apparatus) -> dict[str, object]:
    backbone = apparatus.backbone()
    return {"fingerprint": backbone.fingerprint, "device": str(backbone.device), "dtype": backbone.encoding_dtype}


def horizon(apparatus: Apparatus, chosen: HorizonSettings) -> Measurement:
    """The memory horizon, on paragraphs of many articles one after the other (paper, appendix B)."""
    backbone = apparatus.backbone()
    text = "\n".join(dict.fromkeys(question.context for question in apparatus.squad()))
    ids = backbone.tokenizer.encode(text[: 8 * HORIZON_TOKENS])[:HORIZON_TOKENS]
    settings = {**_made_with(apparatus), **asdict(chosen), "text": ids[:64], "tokens": len(ids)}
    return Measurement("horizon", settings, lambda: measure_horizon(backbone, ids, chosen).to_json())


def clusters(apparatus: Apparatus, per_mission: int) -> Measurement:
    """Sub-clusters built from some conversations and measured on another one (paper, Table 10 and Figure 8)."""
    path = apparatus.data["transcripts"]
    spoken = read_spoken(path)
    counts = Counter(utterance.mission for utterance in spoken)
    held_out = max(reversed(counts), key=lambda mission: counts[mission])  # the longest; of equals the last
    chosen = ClusterSettings(held_out, per_mission, seed=apparatus.choice.seed)
    encoder = apparatus.encoder()
    settings = {**asdict(chosen), "encoder": encoder.fingerprint, "n": len(spoken), "last": spoken[-1].text}

    def outcome() -> dict[str, object]:
        report = evaluate_clusters(spoken, encoder, chosen)
        return {**report.to_json(), "map": _map(report)}

    return Measurement("clusters", settings, outcome)


def _map(report: ClusterReport) -> dict[str, Any]:
    """The mapped domain laid out by t-SNE, as `precog.figures.MapPanel` takes it."""
    [domain] = [domain for domain in report.domains if domain.name == MAPPED]
    points = project(report.keys[domain.rows], seed=report.settings.seed)
    return {
        "title": domain.name,
        "points": points.tolist(),
        "labels": list(domain.labels),
        "emergent": domain.outlines(),
        "note": note_on(len(domain.rows), "tsne"),
    }


def ttft(apparatus: Apparatus, chosen: TtftSettings) -> Measurement:
    """Time to the first token on this machine (paper, Table 2 and Figure 3)."""
    backbone = apparatus.backbone()

    def outcome() -> Mapping[str, object]:
        return bench_ttft(backbone, chosen, encoder=apparatus.choice.encoder).to_json()

    return Measurement("ttft", {**_made_with(apparatus), **asdict(chosen)}, outcome)


def session(apparatus: Apparatus, chosen: SessionSettings) -> Measurement:
    """A session's start after few deposits and after many (paper, section 5.3)."""
    backbone = apparatus.backbone()

    def outcome() -> Mapping[str, object]:
        return bench_session(backbone, chosen, encoder=apparatus.encoder()).to_json()

    return Measurement("session", {**_made_with(apparatus), **asdict(chosen)}, outcome)
