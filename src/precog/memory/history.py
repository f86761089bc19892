"""How the sub-clusters of a memory came about: a fit, then groups that were promoted.

It is kept with the prototypes, so that what has read a deposit can be made again without it.
"""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Literal, cast

from precog.errors import InputError

__all__ = ["Fit", "FitSettings", "History", "Method", "Promotion"]

Method = Literal["kmeans", "hdbscan"]
_METHODS = ("kmeans", "hdbscan")
_UID_CHARS = 16


@dataclass(frozen=True)
class FitSettings:
    """How sub-clusters are fitted.

    Attributes:
        method: "kmeans" gives every deposit of a domain a group, "hdbscan" only those that lie densely.
        per_domain: J, sub-clusters per domain, fewer where it has not deposits enough; None to choose by silhouette
            (k-means) or by density (HDBSCAN).
        most_per_domain: J_max, the most that are chosen.
        least_members: deposits that a domain must have for each of its sub-clusters, and the least of a dense group.
        seed: of k-means' starting points.
        free_domains: domains too are fitted to the deposits, by k-means, and named from their texts; otherwise they
            stay as they are and each deposit goes to the nearest.
    """

    method: Method = "kmeans"
    per_domain: int | None = None
    most_per_domain: int = 10
    least_members: int = 5
    seed: int = 0
    free_domains: bool = False

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            InputError: a value is out of its range, or HDBSCAN is given a number of groups, which it finds itself.
        """
        if self.method not in _METHODS:
            raise InputError("there is no such way to fit", given=self.method, expected="kmeans or hdbscan")
        if self.per_domain is not None and self.method == "hdbscan":
            raise InputError(
                "HDBSCAN finds the number of groups itself", given=f"per_domain {self.per_domain}", hint="use kmeans"
            )
        for name, least in (("per_domain", 1), ("most_per_domain", 1), ("least_members", 2), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is out of its range", given=value, expected=f"≥ {least}")


@dataclass(frozen=True)
class Fit:
    """A fit, as it can be made again.

    Attributes:
        settings: how.
        temperature: of routing by what was fitted.
        last_id: the newest deposit it has read, as it has all before it; 0 where it was fitted to a transcript.
        uids: of a transcript's chunks, sorted, the first 16 hexadecimal digits of each: what of them is deposited,
            before or since, can be forgotten.
    """

    settings: FitSettings
    temperature: float
    last_id: int
    uids: tuple[str, ...] = ()

    def has_read(self, deposit_id: int, uid: bytes) -> bool:
        """Whether a deposit had a part in it."""
        return deposit_id <= self.last_id or short_uid(uid) in self.uids


@dataclass(frozen=True)
class Promotion:
    """A group that emerged and became a sub-cluster, as it can be found again.

    Attributes:
        domain: it emerged in.
        name: it was given then.
        least_members: of a group that was looked for.
        last_id: the newest deposit of the memory then.
    """

    domain: str
    name: str
    least_members: int
    last_id: int


@dataclass(frozen=True)
class History:
    """What was done, in order; nothing where the prototypes are the seeds'.

    Attributes:
        fit: after which there were no other sub-clusters than its own.
        promotions: since.
    """

    fit: Fit | None = None
    promotions: tuple[Promotion, ...] = ()

    def has_read(self, deposits: Collection[tuple[int, bytes]]) -> bool:
        """Whether one of these deposits, by id and uid, had a part in any of it."""
        last_id = max((entry.last_id for entry in self.promotions), default=0)
        fit = self.fit
        return any(i <= last_id or (fit is not None and fit.has_read(i, uid)) for i, uid in deposits)

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {
            "fit": None if self.fit is None else {**asdict(self.fit), "uids": list(self.fit.uids)},
            "promotions": [asdict(entry) for entry in self.promotions],
        }

    @classmethod
    def from_json(cls, value: object) -> "History":
        """What `to_json` wrote.

        Raises:
            InputError: another form, or a value out of its range.
        """
        table = _table(value, {"fit", "promotions"})
        promotions = table["promotions"]
        if not isinstance(promotions, list):
            raise _unreadable("promotions are a list")
        fit = table["fit"]
        return cls(None if fit is None else _fit(fit), tuple(map(_promotion, promotions)))


def short_uid(uid: bytes) -> str:
    """What is kept of a chunk's uid."""
    return uid.hex()[:_UID_CHARS]


def _fit(value: object) -> Fit:
    table = _table(value, {entry.name for entry in fields(Fit)})
    settings = _table(table["settings"], {entry.name for entry in fields(FitSettings)})
    numbers = [settings[name] for name in ("most_per_domain", "least_members", "seed")]
    per_domain, is_free, method = settings["per_domain"], settings["free_domains"], settings["method"]
    if per_domain is not None:
        numbers.append(per_domain)
    if not all(type(number) is int for number in numbers) or type(is_free) is not bool or method not in _METHODS:
        raise _unreadable("settings of a fit")
    temperature, uids = table["temperature"], table["uids"]
    if type(temperature) is not float or not (math.isfinite(temperature) and temperature > 0):
        raise _unreadable("the temperature of a fit is a positive number")
    if not isinstance(uids, list) or not all(isinstance(uid, str) for uid in uids):
        raise _unreadable("what a fit has read is a list of texts")
    made = FitSettings(**settings)  # type: ignore[arg-type]  # checked above
    return Fit(made, temperature, _last_id(table["last_id"]), tuple(cast(list[str], uids)))


def _promotion(value: object) -> Promotion:
    table = _table(value, {entry.name for entry in fields(Promotion)})
    domain, name, least = table["domain"], table["name"], table["least_members"]
    if not isinstance(domain, str) or not isinstance(name, str) or type(least) is not int or least < 2:
        raise _unreadable("a promoted group")
    return Promotion(domain, name, least, _last_id(table["last_id"]))


def _last_id(value: object) -> int:
    if type(value) is not int or value < 0:
        raise _unreadable("the last deposit is a number")
    return value


def _table(value: object, keys: set[str]) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != keys:
        raise _unreadable(f"an object of {', '.join(sorted(keys))}")
    return value


def _unreadable(expected: str) -> InputError:
    return InputError("the history of these prototypes cannot be read", expected=expected)
