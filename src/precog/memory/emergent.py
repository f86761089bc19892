"""Groups that form among the deposits which no sub-cluster holds; paper, appendix "Clustering substrate validation".

A group emerges where at least 20 deposits lie densely together. It is a candidate until somebody promotes it to a
sub-cluster; nothing changes by finding it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int

from precog.errors import InputError
from precog.memory.domains import Kind, SubCluster
from precog.memory.keyed import Keyed, one_thread, sklearn_part
from precog.memory.naming import kind_of, name_groups
from precog.memory.prototypes import Prototypes, mean_key

__all__ = ["LEAST_COHESION", "LEAST_MEMBERS", "Candidate", "dense_groups", "find_emergent", "promote"]

LEAST_MEMBERS = 20
LEAST_COHESION = 0.55
"""What HDBSCAN finds falls into two heaps, about something (0.65 to 0.86) and about nothing (0.38 to 0.45)."""
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

    Dense is what HDBSCAN takes for it and is about one thing: of a mean inner product with its mean of at least 0.55.

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
    groups, scattered = [], [others.texts[row] for row in np.flatnonzero(labels < 0)]
    for label in range(labels.max() + 1):
        group = others.take(np.flatnonzero(labels == label))
        if _cohesion(group.keys) >= LEAST_COHESION:
            groups.append(group)
        else:
            scattered += group.texts
    names = name_groups([group.texts for group in groups], [*scattered, *rest], taken)
    return [
        Candidate(
            domain,
            name,
            kind_of(group.days, others.days),
            group.ids,
            mean_key(group.keys),
            _cohesion(group.keys),
        )
        for group, name in zip(groups, names, strict=True)
    ]


def _cohesion(keys: Float32[np.ndarray, "N E"]) -> float:
    return float((keys.astype(np.float64) @ mean_key(keys).astype(np.float64)).mean())


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
    its tree are taken, not its most lasting branches, which of conversations tend to be one that holds nearly all. Its
    tree does not branch where a single group lies in scatter; then its core is taken, and all that lie as near to the
    core's mean as the core itself.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    num_axes = min(_MOST_AXES, len(keys) - 1, keys.shape[1])
    with one_thread():
        points = sklearn_part("decomposition").PCA(num_axes, svd_solver="full").fit_transform(keys.astype(np.float64))
    labels = _hdbscan(points, least_members, is_one=False)
    if (labels >= 0).any():
        return numbered_by_size(labels)
    core = _hdbscan(points, least_members, is_one=True) >= 0
    if core.any():
        nearness = keys.astype(np.float64) @ mean_key(keys[core]).astype(np.float64)
        labels[nearness >= nearness[core].min()] = 0
    return labels


def _hdbscan(points: Float64[np.ndarray, "N D"], least_members: int, *, is_one: bool) -> Int[np.ndarray, " N"]:
    model = sklearn_part("cluster").HDBSCAN(
        least_members,
        min_samples=min(_NEIGHBOURS, least_members),
        cluster_selection_method="eom" if is_one else "leaf",
        allow_single_cluster=is_one,
        copy=True,
    )
    with one_thread():
        return np.asarray(model.fit_predict(points), dtype=np.int64)


def numbered_by_size(labels: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """The same groups, numbered from 0 by falling size, then by first row; negative labels become -1."""
    found = [label for label in np.unique(labels) if label >= 0]
    rows = {label: np.flatnonzero(labels == label) for label in found}
    order = sorted(found, key=lambda label: (-len(rows[label]), int(rows[label][0])))
    numbered = np.full(len(labels), -1, dtype=np.int64)
    for number, label in enumerate(order):
        numbered[rows[label]] = number
    return numbered
