"""Groups that form among the deposits which no sub-cluster holds; paper, appendix "Clustering substrate validation".

A group emerges where at least 20 deposits lie densely together. It is a candidate until somebody promotes it to a
sub-cluster; nothing changes by finding it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int

from precog.errors import InputError
from precog.memory.domains import Kind, SubCluster
from precog.memory.keyed import Keyed, sklearn_part
from precog.memory.naming import kind_of, name_groups
from precog.memory.prototypes import Prototypes, mean_key

__all__ = ["LEAST_MEMBERS", "Candidate", "dense_groups", "find_emergent", "promote"]

LEAST_MEMBERS = 20
_MOST_AXES = 15
_NEIGHBOURS = 5


@dataclass(frozen=True, eq=False)
class Candidate:
    """A dense group among a domain's others.

    Attributes:
        domain: in which it was found.
        name: made of the words of its texts.
        kind: A or B, by the days its members fall on.
        member_ids: deposits, in the order of their ids.
        key: [E], unit norm: the mean of their keys.
        cohesion: mean inner product of the members' keys with ``key``.
    """

    domain: str
    name: str
    kind: Kind
    member_ids: tuple[int, ...]
    key: Float32[np.ndarray, " E"]
    cohesion: float

    def to_json(self) -> dict[str, object]:
        """Everything but the key."""
        return {
            "domain": self.domain,
            "name": self.name,
            "kind": self.kind,
            "members": list(self.member_ids),
            "cohesion": self.cohesion,
        }


def find_emergent(
    others: Keyed,
    domain: str,
    *,
    least_members: int = LEAST_MEMBERS,
    rest: Sequence[str] = (),
    taken: Collection[str] = (),
) -> list[Candidate]:
    """The dense groups among a domain's others, the largest first; the same whatever the order of the rows.

    Args:
        others: the domain's deposits that were routed to `OTHERS`.
        domain: that they belong to.
        least_members: of a group.
        rest: texts of the domain's sub-clusters, which names are told from.
        taken: names that the domain's sub-clusters have.

    Raises:
        InputError: a group has at least two members.
        UsageError: scikit-learn is not installed.
    """
    if least_members < 2:
        raise InputError("a group has at least two members", given=least_members)
    if len(others.ids) < least_members:
        return []
    others = others.take(np.argsort(others.ids, kind="stable"))
    labels = dense_groups(others.keys, least_members)
    groups = [others.take(np.flatnonzero(labels == label)) for label in range(labels.max() + 1)]
    scattered = [others.texts[row] for row in np.flatnonzero(labels < 0)]
    names = name_groups([group.texts for group in groups], [*scattered, *rest], taken)
    found = []
    for group, name in zip(groups, names, strict=True):
        key = mean_key(group.keys)
        cohesion = float((group.keys.astype(np.float64) @ key.astype(np.float64)).mean())
        found.append(Candidate(domain, name, kind_of(group.days, others.days), group.ids, key, cohesion))
    return found


def promote(prototypes: Prototypes, candidate: Candidate, name: str | None = None) -> Prototypes:
    """The prototypes with the candidate as one more sub-cluster, fitted on its members.

    Raises:
        InputError: the domain is unknown, the name is taken or reserved, or the key is of another width.
    """
    subcluster = SubCluster(candidate.domain, name or candidate.name, candidate.kind)
    return prototypes.extended(subcluster, candidate.key, candidate.member_ids)


def dense_groups(keys: Float32[np.ndarray, "N E"], least_members: int) -> Int[np.ndarray, " N"]:
    """HDBSCAN's groups, numbered from 0 by falling size, then by first row; -1 for what lies in none.

    On the principal axes (at most 15): among hundreds of them every distance is much like every other. The leaves of
    its tree are taken, not its most lasting branches, which of conversations tend to be one that holds nearly all.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    num_axes = min(_MOST_AXES, len(keys) - 1, keys.shape[1])
    points = sklearn_part("decomposition").PCA(num_axes, svd_solver="full").fit_transform(keys.astype(np.float64))
    labels = (
        sklearn_part("cluster")
        .HDBSCAN(least_members, min_samples=min(_NEIGHBOURS, least_members), cluster_selection_method="leaf", copy=True)
        .fit_predict(points)
    )
    return numbered_by_size(np.asarray(labels, dtype=np.int64))


def numbered_by_size(labels: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """The same groups, numbered from 0 by falling size, then by first row; negative labels become -1."""
    found = [label for label in np.unique(labels) if label >= 0]
    rows = {label: np.flatnonzero(labels == label) for label in found}
    order = sorted(found, key=lambda label: (-len(rows[label]), int(rows[label][0])))
    numbered = np.full(len(labels), -1, dtype=np.int64)
    for number, label in enumerate(order):
        numbered[rows[label]] = number
    return numbered
