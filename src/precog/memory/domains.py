"""What a memory is divided into: domains, and the sub-clusters of each with the sentences that stand for them.

Five domains of what people talk about (paper, section "Hierarchical cluster routing"); within each, sub-clusters are
typed by how they are recalled: A holds specific events that are worth their details, B what comes back again and again
and is worth a summary. The sentences are seeds: prototypes are made of them until a memory has enough of its own.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from precog.errors import InputError

__all__ = ["DOMAINS", "KINDS", "OTHERS", "Kind", "SubCluster", "read_seeds"]

DOMAINS = ("emotional", "temporal", "social", "spatial", "factual")
OTHERS = "others"
"""The group of a domain's deposits that no sub-cluster of it holds; no sub-cluster may be called so."""

Kind = Literal["A", "B"]
KINDS: tuple[Kind, ...] = ("A", "B")
_BUNDLED = Path(__file__).with_name("seeds.json")
_VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can spell and nothing can encode


@dataclass(frozen=True)
class SubCluster:
    """One group within a domain.

    Attributes:
        domain: that it belongs to.
        name: for people, unique within the domain.
        kind: "A" for specific events, "B" for what recurs.
        seeds: sentences that stand for it; empty where it was fitted to the texts of a memory.
    """

    domain: str
    name: str
    kind: Kind
    seeds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses an empty or reserved name.

        Raises:
            InputError: the name is empty or that of the group of all others, or the kind is unknown.
        """
        if not self.name.strip() or self.name != self.name.strip() or self.name.casefold() == OTHERS:
            raise InputError(
                "a sub-cluster needs a name of its own",
                given=f"{self.domain} ▸ {self.name!r}",
                expected=f"not empty, no blanks around it, not {OTHERS!r}",
            )
        if self.kind not in KINDS:
            raise InputError(
                "a sub-cluster is of one of two kinds",
                given=f"{self.domain} ▸ {self.name}: {self.kind}",
                expected=KINDS,
            )


def read_seeds(path: Path | None = None) -> tuple[SubCluster, ...]:
    """The sub-clusters of a seeds file with their sentences, domain by domain in the order of `DOMAINS`.

    Args:
        path: a JSON file; None for the one that comes with PRECOG, which shows the form.

    Raises:
        InputError: the file is missing, no JSON, or not of this form: an unknown or missing key, a domain or name that
            occurs twice, a sub-cluster without sentences, an empty sentence or one that stands for two sub-clusters.
    """
    path = path or _BUNDLED
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError("the seeds cannot be read", given=f"{path} ({error.strerror})") from error
    try:
        document = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_once)
    except _RepeatedKey as error:
        raise InputError("the seeds name something twice", given=f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError("the seeds are no JSON", given=f"{path} ({error})") from error
    table = _object(document, {"version", "domains"}, str(path))
    if type(table["version"]) is not int or table["version"] != _VERSION:
        raise InputError(
            "the seeds are of another version", given=f"{path}: {table['version']!r}", expected=f"{_VERSION}"
        )
    domains = _object(table["domains"], set(DOMAINS), f"{path}, domains")
    found = tuple(
        _subcluster(entry, domain, f"{path}, {domain}, entry {number}")
        for domain in DOMAINS
        for number, entry in enumerate(_list(domains[domain], f"{path}, {domain}"), start=1)
    )
    _check_unique(found, path)
    return found


def _subcluster(entry: object, domain: str, place: str) -> SubCluster:
    table = _object(entry, {"name", "kind", "seeds"}, place)
    if not isinstance(table["name"], str) or table["kind"] not in KINDS:
        raise InputError(
            "this sub-cluster's name or kind cannot be used", given=place, expected="a text, and one of A and B"
        )
    place = f"{place} ({table['name']})"
    seeds = _list(table["seeds"], place)
    for number, seed in enumerate(seeds, start=1):
        if not isinstance(seed, str) or not seed.strip() or _SURROGATE.search(seed):
            raise InputError("a seed is a sentence", given=f"{place}, seed {number}", expected="a text, not empty")
    return SubCluster(domain, table["name"], table["kind"], tuple(cast(list[str], seeds)))


def _check_unique(subclusters: tuple[SubCluster, ...], path: Path) -> None:
    names: set[tuple[str, str]] = set()
    owners: dict[str, str] = {}
    for subcluster in subclusters:
        place = f"{subcluster.domain} ▸ {subcluster.name}"
        if (subcluster.domain, subcluster.name) in names:
            raise InputError("two sub-clusters of one domain have the same name", given=f"{path}: {place}")
        names.add((subcluster.domain, subcluster.name))
        for seed in subcluster.seeds:
            if seed in owners:
                raise InputError(
                    "a seed stands for one sub-cluster only",
                    given=f"{path}: {seed!r} in {owners[seed]} and in {place}",
                )
            owners[seed] = place


class _RepeatedKey(Exception):
    pass


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _RepeatedKey(key)
        found[key] = value
    return found


def _object(value: object, keys: set[str], place: str) -> dict[str, object]:
    expected = ", ".join(sorted(keys))
    if not isinstance(value, dict):
        raise InputError("the seeds are not of the known form", given=place, expected=f"an object with {expected}")
    wrong = sorted(keys ^ set(value))
    if wrong:
        known = "unknown" if wrong[0] in value else "missing"
        raise InputError(f"a key of the seeds is {known}", given=f"{place}: {wrong[0]!r}", expected=expected)
    return value


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise InputError("the seeds are not of the known form", given=place, expected="a list, not empty")
    return value
