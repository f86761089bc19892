"""Where a text belongs: the nearest domain, then the nearest sub-cluster of it; paper, Eqs. 5 and 6.

The paper's threshold of 0.2 is a probability, though its equations give inner products only; here it is
p = softmax(⟨φ, q⟩ / T) over the sub-clusters of the chosen domain (ERRATA 28). What stays below it goes to the domain's
group of all others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int

from precog.errors import InputError
from precog.memory.domains import OTHERS
from precog.memory.prototypes import Prototypes

__all__ = [
    "FITTED_TEMPERATURE",
    "TEMPERATURE",
    "THRESHOLD",
    "Group",
    "Route",
    "nearest_domains",
    "probe",
    "route",
    "route_all",
    "route_loop",
]

Group = tuple[str, str]
"""(domain, sub-cluster or `OTHERS`)."""
THRESHOLD = 0.2
TEMPERATURE = 0.12
"""T for prototypes of seeds.

Chosen from this table, at a threshold of 0.2, with the bundled encoder and seeds: seeds left out one at a time (461;
both stages right in 60.5 % as long as none is lost, the domain in 77.4 %), and the share of others among 1,500
utterances each of radio traffic with spacecraft and of friends' chats.

| T | seeds to others | right of those kept | right of all | radio to others | chats to others |
|---|---|---|---|---|---|
| 0.05 | 0.4 % | 60.8 % | 60.5 % | 0.9 % | 0.5 % |
| 0.08 | 2.0 % | 61.7 % | 60.5 % | 4.9 % | 3.1 % |
| 0.10 | 3.7 % | 62.8 % | 60.5 % | 12.1 % | 7.4 % |
| **0.12** | 6.7 % | 64.7 % | 60.3 % | 22.5 % | 13.1 % |
| 0.15 | 12.8 % | 65.2 % | 56.8 % | 36.1 % | 24.1 % |
| 0.20 | 28.4 % | 70.0 % | 50.1 % | 58.9 % | 43.7 % |
| 1.00 | 100 % | – | 0 % | 100 % | 100 % |

0.12 is the warmest at which hardly any seed that is routed right is lost.
"""
FITTED_TEMPERATURE = 0.15
"""T for ten sub-clusters a domain fitted by k-means.

Of 7,500 utterances of a mission that they were not fitted to, 18 % go to the others (8 % at 0.12, 41 % at 0.2), and
there groups begin to emerge.
"""
_UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Route:
    """Where one text goes.

    Attributes:
        domain: the nearest one.
        subcluster: the nearest one of that domain, or `OTHERS`.
        probability: of the nearest sub-cluster among those of the domain; 0 where the domain has none.
        ranking: (domain, sub-cluster, inner product), all sub-clusters of all domains, the nearest first. The first
            may be of another domain than the one chosen.
    """

    domain: str
    subcluster: str
    probability: float
    ranking: tuple[tuple[str, str, float], ...]


def route(
    key: Float32[np.ndarray, " E"],
    prototypes: Prototypes,
    *,
    temperature: float = TEMPERATURE,
    threshold: float = THRESHOLD,
) -> Route:
    """Route one key, of unit norm; of several windows, pass their `mean_key`.

    Raises:
        InputError: as `route_all`.
    """
    return route_all(key[None], prototypes, temperature=temperature, threshold=threshold)[0]


def route_all(
    keys: Float32[np.ndarray, "N E"],
    prototypes: Prototypes,
    *,
    temperature: float = TEMPERATURE,
    threshold: float = THRESHOLD,
) -> list[Route]:
    """Route many keys at once; each as `route` would, whatever its neighbours are.

    Args:
        keys: unit norm.
        prototypes: of the same encoder.
        temperature: T > 0; 1 makes nearly uniform probabilities of cosines (ERRATA 11).
        threshold: from 0 to 1; a nearest sub-cluster less probable than this gives way to `OTHERS`.

    Raises:
        InputError: keys of another width or norm, or temperature or threshold out of their ranges.
    """
    _check(keys, prototypes, temperature, threshold)
    nearest = nearest_domains(keys, prototypes)
    products = _products(keys, prototypes.keys)
    rows_of = [prototypes.rows_of(domain) for domain in prototypes.domains]
    return [
        _routed(products[number], prototypes, prototypes.domains[m], rows_of[m], temperature, threshold)
        for number, m in enumerate(nearest.tolist())
    ]


def nearest_domains(keys: Float32[np.ndarray, "N E"], prototypes: Prototypes) -> Int[np.ndarray, " N"]:
    """The number of each key's nearest domain, of equals the first; Eq. 5."""
    nearest: Int[np.ndarray, " N"] = np.argmax(_products(keys, prototypes.domain_keys), axis=1)
    return nearest


def route_loop(
    key: Float32[np.ndarray, " E"], prototypes: Prototypes, *, temperature: float, threshold: float
) -> Route:
    """The two equations word for word: what `route_all` is tested against."""
    best_domain, best = 0, -math.inf
    for number, domain_key in enumerate(prototypes.domain_keys):
        product = sum(float(a) * float(b) for a, b in zip(key, domain_key, strict=True))
        if product > best:
            best_domain, best = number, product
    domain = prototypes.domains[best_domain]
    ranking = []
    for subcluster, key_of in zip(prototypes.subclusters, prototypes.keys, strict=True):
        product = sum(float(a) * float(b) for a, b in zip(key, key_of, strict=True))
        ranking.append((subcluster.domain, subcluster.name, product))
    ranking.sort(key=lambda entry: -entry[2])
    own = [entry for entry in ranking if entry[0] == domain]
    total = sum(math.exp((product - own[0][2]) / temperature) for _, _, product in own)
    probability = 1 / total if own else 0.0
    chosen = own[0][1] if own and probability >= threshold else OTHERS
    return Route(domain, chosen, probability, tuple(ranking))


def probe(
    key: Float32[np.ndarray, " E"],
    prototypes: Prototypes,
    n: int,
    means: Mapping[Group, Float32[np.ndarray, " _"]] | None = None,
) -> list[Group]:
    """The n groups that a question is searched in, the nearest first, over all domains.

    Without ``means`` a sub-cluster is as near as its prototype, a domain's group of all others as near as the domain.
    With them a group is as near as the mean of what it holds: in ten long chats, what questions asked for was in the
    groups in 65 % of the cases and not in 59 %, with 31 % of the texts searched (eight groups, and twelve without).

    Args:
        key: the question's.
        prototypes: of the same encoder.
        n: at least 1; fewer come back where there are no more groups.
        means: (domain, sub-cluster or `OTHERS`) ▸ mean key of its members, unit norm, of each group that is not empty;
            no other group is searched.

    Raises:
        InputError: a key has another width or norm, n is no positive number, or a group is unknown.
    """
    if n < 1:
        raise InputError("a question is searched in at least one group", given=n, expected="≥ 1")
    _check(key[None], prototypes, 1.0, 0.0)
    groups = [(s.domain, s.name) for s in prototypes.subclusters] + [(d, OTHERS) for d in prototypes.domains]
    keys = np.concatenate([prototypes.keys, prototypes.domain_keys])
    if means is not None:
        strange = next((group for group in means if group not in set(groups)), None)
        if strange is not None:
            raise InputError("there is no such group", given=" ▸ ".join(strange))
        groups = [group for group in groups if group in means]
        for mean in means.values():
            _check(mean[None], prototypes, 1.0, 0.0)
        keys = np.stack([means[group] for group in groups]) if groups else keys[:0]
    order = np.argsort(-_products(key[None], keys)[0], kind="stable")
    return [groups[row] for row in order[:n]]


def _routed(
    products: Float64[np.ndarray, " J"],
    prototypes: Prototypes,
    domain: str,
    own: Sequence[int],
    temperature: float,
    threshold: float,
) -> Route:
    groups = prototypes.subclusters
    order = np.argsort(-products, kind="stable").tolist()
    ranking = tuple((groups[row].domain, groups[row].name, float(products[row])) for row in order)
    if not own:
        return Route(domain, OTHERS, 0.0, ranking)
    best = max(own, key=lambda row: products[row])
    with np.errstate(over="ignore"):  # so near to zero that a difference divided by it is endless
        weights = np.exp((products[list(own)] - products[best]) / temperature)
    probability = 1 / float(weights.sum())
    return Route(domain, groups[best].name if probability >= threshold else OTHERS, probability, ranking)


def _products(keys: Float32[np.ndarray, "N E"], prototypes: Float32[np.ndarray, "J E"]) -> Float64[np.ndarray, "N J"]:
    """Inner products in double precision, each summed alone: none depends on how many others are computed with it."""
    if not len(keys):
        return np.zeros((0, len(prototypes)))
    wide = prototypes.astype(np.float64)
    return np.stack([np.einsum("e,je->j", key.astype(np.float64), wide) for key in keys])


def _check(keys: Float32[np.ndarray, "N E"], prototypes: Prototypes, temperature: float, threshold: float) -> None:
    if keys.shape[1] != prototypes.domain_keys.shape[1]:
        raise InputError(
            "this key is not of the prototypes' width", given=keys.shape[1], expected=prototypes.domain_keys.shape[1]
        )
    if not (np.abs(np.linalg.norm(keys, axis=1) - 1) < _UNIT_TOLERANCE).all():
        raise InputError("a key to be routed is a unit vector")
    if not (math.isfinite(temperature) and temperature > 0):
        raise InputError("the routing temperature is a positive number", given=temperature)
    if not 0 <= threshold <= 1:
        raise InputError("the routing threshold is a probability", given=threshold, expected="from 0 to 1")
