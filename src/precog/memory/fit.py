"""Sub-clusters fitted to what a memory holds, instead of to the seed sentences.

A fit has read all its deposits: where one group begins and what it is called depends on what lies in the others. So
after forgetting, fit again on what is left: the result is that of a memory that never held the rest (same settings,
same seed). `Prototypes.members` tells on which deposits each group was fitted.
"""

import numpy as np
from jaxtyping import Float32, Int

from precog.errors import InputError
from precog.memory.domains import SubCluster
from precog.memory.emergent import dense_groups, numbered_by_size
from precog.memory.history import FitSettings
from precog.memory.keyed import Keyed, nothing_to, one_thread, sklearn_part
from precog.memory.naming import kind_of, name_groups
from precog.memory.prototypes import Prototypes, mean_key
from precog.memory.routing import nearest_domains

__all__ = ["FitSettings", "fit"]

_DEFAULT = FitSettings()
_STARTS = 4
_MOST_FOR_SILHOUETTE = 2000


def fit(deposits: Keyed, base: Prototypes, settings: FitSettings = _DEFAULT) -> Prototypes:
    """Prototypes with the sub-clusters of these deposits; the same whatever the order of the rows.

    A domain that has too few deposits for one group of `least_members` (or, under HDBSCAN, no dense group) keeps the
    sub-clusters of seeds that it has in ``base``. Those that were fitted or promoted before are not kept.

    Args:
        deposits: of one memory.
        base: tells the domains; usually made of seeds.
        settings: how.

    Raises:
        InputError: there are no deposits, their keys are of another width, or fewer than there are free domains.
        UsageError: scikit-learn is not installed.
    """
    if not deposits.ids:
        raise nothing_to("there is nothing to fit sub-clusters to")
    if deposits.keys.shape[1] != base.keys.shape[1]:
        raise InputError(
            "these keys are not of the prototypes' width", given=deposits.keys.shape[1], expected=base.keys.shape[1]
        )
    deposits = deposits.take(np.argsort(deposits.ids, kind="stable"))
    if settings.free_domains:
        names, domain_keys, domain_of = _free_domains(deposits, len(base.domains), settings.seed)
    else:
        names, domain_keys, domain_of = base.domains, base.domain_keys, nearest_domains(deposits.keys, base)
    subclusters: list[SubCluster] = []
    keys: list[Float32[np.ndarray, " E"]] = []
    members: list[tuple[int, ...]] = []
    for number, domain in enumerate(names):
        own = deposits.take(np.flatnonzero(domain_of == number))
        labels = _groups(own.keys, settings)
        groups = [own.take(np.flatnonzero(labels == label)) for label in range(labels.max(initial=-1) + 1)]
        if not groups:
            for row in _of_seeds(base, domain):
                subclusters.append(base.subclusters[row])
                keys.append(base.keys[row])
                members.append(())
            continue
        unheld = [own.texts[row] for row in np.flatnonzero(labels < 0)]
        called = name_groups([group.texts for group in groups], unheld)
        for group, name in zip(groups, called, strict=True):
            subclusters.append(SubCluster(domain, name, kind_of(group.days, deposits.days)))
            keys.append(mean_key(group.keys))
            members.append(group.ids)
    stacked = np.stack(keys) if keys else np.zeros((0, base.keys.shape[1]), np.float32)
    return Prototypes(names, domain_keys, tuple(subclusters), stacked, base.encoder_fingerprint, tuple(members))


def _of_seeds(base: Prototypes, domain: str) -> list[int]:
    """Rows of the domain that no deposit had a part in: others could be of some that are forgotten since."""
    rows = base.rows_of(domain) if domain in base.domains else []
    return [row for row in rows if not base.members[row]]


def _free_domains(
    deposits: Keyed, count: int, seed: int
) -> tuple[tuple[str, ...], Float32[np.ndarray, "M E"], Int[np.ndarray, " N"]]:
    if len(deposits.ids) < count:
        hint = "remember more, or keep the domains of the seeds"
        raise InputError(
            "there are fewer deposits than domains", given=len(deposits.ids), expected=f"≥ {count}", hint=hint
        )
    labels = _kmeans(deposits.keys, count, seed)
    groups = [deposits.take(np.flatnonzero(labels == label)) for label in range(labels.max() + 1)]
    keys = np.stack([mean_key(group.keys) for group in groups])
    return tuple(name_groups([group.texts for group in groups])), keys, labels


def _groups(keys: Float32[np.ndarray, "N E"], settings: FitSettings) -> Int[np.ndarray, " N"]:
    """A group for each row, or -1; all -1 where there are too few rows for any."""
    none = np.full(len(keys), -1, dtype=np.int64)
    if len(keys) < settings.least_members:
        return none
    if settings.method == "hdbscan":
        labels = dense_groups(keys, settings.least_members)
        labels[labels >= settings.most_per_domain] = -1
        return labels
    if settings.per_domain is not None:
        return _kmeans(keys, min(settings.per_domain, len(keys) // settings.least_members), settings.seed)
    return _chosen(keys, settings)


def _chosen(keys: Float32[np.ndarray, "N E"], settings: FitSettings) -> Int[np.ndarray, " N"]:
    """k-means with as many groups as give the highest silhouette; of equals, the fewest."""
    most = min(settings.most_per_domain, len(keys) // settings.least_members)
    best, best_score = np.zeros(len(keys), dtype=np.int64), -1.0
    sample = None if len(keys) <= _MOST_FOR_SILHOUETTE else _MOST_FOR_SILHOUETTE
    for count in range(2, most + 1):
        labels = _kmeans(keys, count, settings.seed)
        if not 2 <= labels.max() + 1 < len(keys):
            continue
        with one_thread():
            score = sklearn_part("metrics").silhouette_score(
                keys, labels, metric="cosine", sample_size=sample, random_state=settings.seed
            )
        if score > best_score:
            best, best_score = labels, float(score)
    return best


def _kmeans(keys: Float32[np.ndarray, "N E"], count: int, seed: int) -> Int[np.ndarray, " N"]:
    """Groups numbered by falling size; no more of them than there are different keys."""
    count = min(count, len(np.unique(keys, axis=0)))
    with one_thread():
        model = sklearn_part("cluster").KMeans(count, n_init=_STARTS, random_state=seed % 2**32)
        return numbered_by_size(np.asarray(model.fit_predict(keys.astype(np.float64)), dtype=np.int64))
