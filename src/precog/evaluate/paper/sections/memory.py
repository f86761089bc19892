"""Section 5 and Table 10: sub-clusters of a memory, and a session that starts in the same time however long it is."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from precog import figures
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.printed import CLUSTERS, OTHERS
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import points, seconds
from precog.memory.domains import read_seeds
from precog.plan.paper import PAPER
from precog.plan.storage import state_bytes

__all__ = ["memory"]

_WELL_APART = 1.5


def memory(findings: Findings) -> Written | None:
    """The section; None if nothing of a memory was measured."""
    clusters, session = findings.reports.get("clusters"), findings.reports.get("session")
    if clusters is None and session is None:
        return None
    compared = [*([] if clusters is None else _clusters(clusters)), *([] if session is None else _session(session))]
    grids = [] if clusters is None else [_grid(clusters)]
    text = () if clusters is None else (
        f"Sub-clusters were built from {_listed(clusters['built_from'])} and measured on {clusters['n']:,} utterances "
        "of "
        f"{clusters['held_out']}. The paper uses the dialogue of seven films, with a taxonomy and labels made by "
        "another "
        "language model; neither can be had, so here nothing but the sentence encoder's keys decides (k-means per "
        "domain), and the transcripts are NASA's.",
    )  # fmt: skip
    drawn = [_pipeline(session), *([] if clusters is None else [_map(clusters)])]
    title = "Memory: sub-clusters and session start (section 5, Table 10)"
    section = Section(title, text, compared, grids, [picture for picture, _ in drawn])
    return Written(section, tuple(drawing for _, drawing in drawn))


def _pipeline(session: Mapping[str, Any] | None) -> tuple[Picture, Drawing]:
    memory, state = PAPER.memory, state_bytes(PAPER.model)
    chunk = PAPER.edge.chunk_tokens
    drawn = figures.MemoryPipeline(
        "Structured memory",
        [*CLUSTERS],
        [*(seed.name for seed in read_seeds() if seed.domain == next(iter(CLUSTERS)))][:3],
        [
            figures.Dial(f"K = {chunk}", "every state", chunk * state),
            figures.Dial(f"K = {chunk // 8}", "every eighth", chunk // 8 * state),
            figures.Dial("K = 1", "semantic", state),
        ],
        chunk_tokens=chunk,
        state_bytes=state,
        alpha=memory.decay,
        start_sec=None if session is None else session["values"]["many_start"]["median_sec"],
    )
    caption = (
        "Figure 7. From utterances to the start of a session; bytes of the paper's model, the start as measured here."
    )
    alt = "Utterances become chunks with headers, states along them, a domain, a sub-cluster, a semantic state."
    return Picture("figure-7-memory", caption, alt), Drawing("figure-7-memory", drawn)


def _map(report: Mapping[str, Any]) -> tuple[Picture, Drawing]:
    found = report["map"]
    panel = figures.MapPanel(
        found["title"],
        np.array(found["points"], dtype=np.float32).reshape(-1, 2),
        tuple(found["labels"]),
        {name: tuple(rows) for name, rows in found["emergent"].items()},
        found["note"],
    )
    drawn = figures.MemoryMap.of([panel], f"{report['held_out']}, routed to sub-clusters of other conversations")
    caption = "Figure 8. The spatial domain, laid out by t-SNE; distances on it are not those between keys."
    return Picture(
        "figure-8-map",
        caption,
        "A point for each utterance, marked by sub-cluster; grey fits none; rings where a group emerges.",
    ), Drawing("figure-8-map", drawn)


def _listed(missions: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in missions.items())


def _clusters(report: Mapping[str, Any]) -> list[Compared]:
    rows = []
    for name, printed in CLUSTERS.items():
        domain = report["domains"].get(name)
        if domain is None:
            continue
        ratio, dealt = domain["ratio"], domain["random_ratio"]
        why = "No two groups were filled." if ratio is None else _why(ratio, dealt)
        rows.append(Compared(f"{name}: inter / intra distance", points(printed, 2), points(ratio, 2), why))
    others = report["domains"].get("spatial", {}).get("others")
    if others is not None:
        groups = report["domains"]["spatial"]["emergent"]
        found = ", ".join(f"{group['name']} ({group['size']})" for group in groups) or "none"
        why = f"Groups that emerge among them: {found}. Another conversation, so another number."
        rows.append(Compared("spatial: utterances that fit no sub-cluster (Figure 8)", f"{OTHERS}", f"{others}", why))
    return rows


def _why(ratio: float, dealt: float | None) -> str:
    limit = f"{'above' if ratio > _WELL_APART else 'below'} the paper's limit of {_WELL_APART}"
    chance = "" if dealt is None else f"; groups of the same sizes dealt by chance have {points(dealt, 2)}"
    return (
        f"{limit[0].upper()}{limit[1:]}{chance}. Distances between unit keys of real conversations lie close together; "
        "films with labels of another model made groups of places that are named in every line."
    )


def _grid(report: Mapping[str, Any]) -> Grid:
    rows = [
        (
            name,
            f"{domain['n']:,}",
            points(domain["ratio"], 3),
            points(domain["cosine_ratio"], 3),
            points(domain["random_ratio"], 3),
            f"{domain['others']:,}",
        )
        for name, domain in report["domains"].items()
    ]
    columns = ("domain", "utterances", "inter / intra", "by cosine", "groups by chance", "fit none")
    return Grid("separation of sub-clusters", columns, rows)


def _session(report: Mapping[str, Any]) -> list[Compared]:
    values, ratios = report["values"], report["ratios"]
    few, many = (values[f"{side}_start"]["median_sec"] for side in ("few", "many"))
    return [
        Compared(
            "time of a session's start",
            "about 6 ms, O(1) in the history",
            f"{seconds(few)} after {values['deposits_few']:,} deposits, {seconds(many)} after "
            f"{values['deposits_many']:,}",
            f"Ratio {points(ratios['start']['value'], 3)}: memory opened, utterance keyed and routed, semantic state "
            "read "
            f"and injected; {seconds(values['many_encode']['median_sec'])} of it are the sentence encoder.",
        ),
        Compared(
            "bytes of states read at the start",
            "192 KB",
            f"{values['few_state_read_bytes']:,} B and {values['many_state_read_bytes']:,} B",
            "The same however long the history. The master of a semantic state is FP32, so that forgetting can be "
            "proved "
            "to the bit (inconsistency 14).",
        ),
    ]
