"""A memory laid out for a map: per domain a plane of its deposits, their sub-clusters, and what emerges among them."""

from collections.abc import Sequence

from precog.figures import MapPanel
from precog.memory.domains import OTHERS
from precog.memory.emerge import candidates
from precog.memory.keyed import nothing_to
from precog.memory.projection import Projection, note_on, project
from precog.memory.prototypes import Prototypes
from precog.memory.reroute import keyed_deposits
from precog.store.memory import MemoryStore


def panels_json(panels: Sequence[MapPanel]) -> dict[str, object]:
    """What is drawn, as the command line prints it: deposits of each domain, and the groups that emerge."""
    return {
        "deposits": {panel.title: len(panel.labels) for panel in panels},
        "emergent": [f"{panel.title} ▸ {name}" for panel in panels for name in panel.emergent],
    }


def panels_of(
    store: MemoryStore,
    prototypes: Prototypes,
    domain: str | None = None,
    *,
    projection: Projection = "tsne",
    seed: int = 0,
) -> list[MapPanel]:
    """One panel per domain that holds a deposit; the same memory gives the same panels.

    Args:
        store: the memory.
        prototypes: that it routes by.
        domain: only this one.
        projection: how keys are laid out.
        seed: of t-SNE.

    Raises:
        InputError: there is no such domain, or nothing to lay out.
        UsageError: scikit-learn is not installed.
    """
    outlined = candidates(store, prototypes, domain)
    panels = []
    for name in prototypes.domains if domain is None else (domain,):
        deposits = list(store.deposits(domain=name, only_sound=True))
        keyed = keyed_deposits(store, deposits)
        deposits = [deposit for deposit in deposits if deposit.id in set(keyed.ids)]
        if not deposits:
            continue
        row_of = {deposit.id: row for row, deposit in enumerate(deposits)}
        names = (deposit.info.subcluster for deposit in deposits)
        panels.append(
            MapPanel(
                name,
                project(keyed.keys, projection, seed=seed),
                tuple(None if subcluster == OTHERS else subcluster for subcluster in names),
                {
                    entry.name: [row_of[member] for member in entry.member_ids]
                    for entry in outlined
                    if entry.domain == name
                },
                note_on(len(deposits), projection),
                tuple(deposit.id for deposit in deposits),
            )
        )
    if not panels:
        raise nothing_to("there is nothing to draw", domain)
    return panels
