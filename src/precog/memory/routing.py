"""Where a text belongs: the nearest domain, then the nearest sub-cluster of it; paper, Eqs. 5 and 6.

The paper's threshold of 0.2 is a probability, though its equations give inner products only; here it is
p = softmax(⟨φ, q⟩ / T) over the sub-clusters of the chosen domain (ERRATA 28). What stays below it goes to the domain's
group of all others.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int

from precog.errors import InputError
from precog.memory.domains import OTHERS
from precog.memory.prototypes import Prototypes

__all__ = ["TEMPERATURE", "THRESHOLD", "Route", "nearest_domains", "probe", "route", "route_all", "route_loop"]

THRESHOLD = 0.2
TEMPERATURE = 0.12
_UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Route:
    """Where one text goes.

    Attributes:
        domain: the nearest one.
        subcluster: the nearest one of that domain, or `OTHERS`.
        probability: of the nearest sub-cluster among those of the domain; 0 where the domain has none.
        ranking: (domain, sub-cluster, probability), all sub-clusters of that domain, the nearest first.
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
    rows_of = [np.array(prototypes.rows_of(domain), dtype=np.int64) for domain in prototypes.domains]
    return [
        _routed(products[number, rows_of[m]], rows_of[m], prototypes, m, temperature, threshold)
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
    weights = {}
    for row in prototypes.rows_of(domain):
        product = sum(float(a) * float(b) for a, b in zip(key, prototypes.keys[row], strict=True))
        weights[prototypes.subclusters[row].name] = math.exp((product - 1) / temperature)
    total = sum(weights.values())
    ranking = sorted(((domain, name, weight / total) for name, weight in weights.items()), key=lambda entry: -entry[2])
    probability = ranking[0][2] if ranking else 0.0
    chosen = ranking[0][1] if ranking and probability >= threshold else OTHERS
    return Route(domain, chosen, probability, tuple(ranking))


def probe(key: Float32[np.ndarray, " E"], prototypes: Prototypes, n: int) -> list[tuple[str, str]]:
    """The n groups that a question is searched in, the nearest first, over all domains.

    A sub-cluster is as near as its prototype; a domain's group of all others as near as the domain's own.

    Raises:
        InputError: the key has another width or norm, or n is no positive number.
    """
    if n < 1:
        raise InputError("a question is searched in at least one group", given=n, expected="≥ 1")
    _check(key[None], prototypes, 1.0, 0.0)
    groups = [(s.domain, s.name) for s in prototypes.subclusters] + [(d, OTHERS) for d in prototypes.domains]
    products = np.concatenate(
        [_products(key[None], prototypes.keys)[0], _products(key[None], prototypes.domain_keys)[0]]
    )
    order = np.argsort(-products, kind="stable")
    return [groups[row] for row in order[:n]]


def _routed(
    products: Float64[np.ndarray, " j"],
    rows: Int[np.ndarray, " j"],
    prototypes: Prototypes,
    m: int,
    temperature: float,
    threshold: float,
) -> Route:
    domain = prototypes.domains[m]
    if not len(rows):
        return Route(domain, OTHERS, 0.0, ())
    scaled = products / temperature
    weights = np.exp(scaled - scaled.max())
    shares = weights / weights.sum()
    order = np.argsort(-products, kind="stable")
    ranking = tuple((domain, prototypes.subclusters[rows[j]].name, float(shares[j])) for j in order)
    probability = ranking[0][2]
    return Route(domain, ranking[0][1] if probability >= threshold else OTHERS, probability, ranking)


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
