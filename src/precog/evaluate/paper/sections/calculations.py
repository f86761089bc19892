"""Everything that the paper calculates, calculated again; and where it contradicts itself."""

from precog.evaluate.paper.findings import Findings, Written
from precog.evaluate.paper.report import Compared, Grid, Section
from precog.evaluate.paper.sections.device import device_figures
from precog.plan.claims import claims
from precog.plan.inconsistency import inconsistencies

__all__ = ["calculations", "contradictions"]


def calculations(findings: Findings) -> Written:
    """Every printed number that follows from others (sections 3 to 5, appendices C to H)."""
    rows = claims()
    agreeing = sum(row.agrees for row in rows)
    order: dict[str, list[Compared]] = {}
    for row in rows:
        why = f"{'Comes out.' if row.agrees else 'Does not come out.'} {row.why}".strip()
        order.setdefault(row.where, []).append(Compared(f"{row.where}: {row.what}", row.printed, row.ours, why))
    pictures, drawings = device_figures()
    compared = [row for where in order.values() for row in where]
    return Written(
        Section(
            "Calculations: storage, bandwidth, latency, energy, training (Tables 1, 2, 4, 5, 9, Figures 2 to 6, "
            "appendix D)",
            text=(
                f"{len(rows)} printed numbers follow from others by arithmetic; {agreeing} of them come out with the "
                "digits "
                "that are printed. KB, MB and GB are powers of 1024 here, as in the paper's appendix D. Throughput and "
                "power of the paper's device are its own; what follows from them is a model in virtual time.",
            ),
            compared=compared,
            pictures=pictures,
        ),
        tuple(drawings),
    )


def contradictions(findings: Findings) -> Written:
    """All inconsistencies, by the number that other sections refer to."""
    rows = [(f"{row.number}", row.what, row.printed, row.ours, row.why) for row in inconsistencies()]
    columns = ("", "what", "the paper says", "comes out, or is built", "why")
    return Written(
        Section(
            "Inconsistencies of the paper, and what this project does",
            text=("Where the paper contradicts itself or the mathematics. Other sections refer to these numbers.",),
            grids=[Grid("by number", columns, rows)],
        )
    )
