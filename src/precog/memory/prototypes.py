"""The keys that domains and sub-clusters are known by; paper: p_m and q_{m,j}."""

import base64
import binascii
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from jaxtyping import Float32

from precog.encoders.encoder import Encoder
from precog.errors import EncoderError, InputError
from precog.memory.domains import DOMAINS, KINDS, SubCluster, read_seeds
from precog.memory.history import History

__all__ = ["Prototypes", "from_seeds", "mean_key"]

_FORMAT = "precog-prototypes"
_VERSION = 2
_FIRST_VERSION = 1  # had no history: there was none to have
_UNIT_TOLERANCE = 1e-4
_KEYS = {"format", "version", "encoder_fingerprint", "dim", "domains", "subclusters", "history"}
_DOMAIN_KEYS = {"name", "key"}
_SUBCLUSTER_KEYS = {"domain", "name", "kind", "seeds", "members", "key"}


@dataclass(frozen=True, eq=False)
class Prototypes:
    """What a text's key is compared with.

    Attributes:
        domains: M names.
        domain_keys: [M, E], unit norm; p_m.
        subclusters: J of them, of all domains.
        keys: [J, E], unit norm; q_{m,j}.
        encoder_fingerprint: of the encoder that made the keys; keys of another cannot be compared with them.
        members: for each sub-cluster the ids of the deposits it was fitted on; empty where it is made of seeds, and
            where ``history`` tells it.
        history: how they came about in a memory, and so what they have read.
    """

    domains: tuple[str, ...]
    domain_keys: Float32[np.ndarray, "M E"]
    subclusters: tuple[SubCluster, ...]
    keys: Float32[np.ndarray, "J E"]
    encoder_fingerprint: str
    members: tuple[tuple[int, ...], ...]
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        """Checks that the parts fit together.

        Raises:
            InputError: counts or widths differ, a name occurs twice, a domain is unknown, a key is no unit vector.
        """
        counts = {len(self.subclusters), len(self.keys), len(self.members)}
        if len(counts) != 1 or not self.domains or len(self.domains) != len(self.domain_keys):
            raise InputError(
                "the parts of these prototypes do not fit together",
                given=f"{len(self.domains)} domains with {len(self.domain_keys)} keys, {len(self.subclusters)} "
                f"sub-clusters with {len(self.keys)} keys and {len(self.members)} lists of members",
            )
        if self.keys.shape[1] != self.domain_keys.shape[1]:
            raise InputError(
                "the keys of these prototypes differ in width", given=f"{self.domain_keys.shape} and {self.keys.shape}"
            )
        names = [f"{subcluster.domain} ▸ {subcluster.name}" for subcluster in self.subclusters]
        for what, seen in (("domain", self.domains), ("sub-cluster", tuple(names))):
            twice = next((name for name, count in Counter(seen).items() if count > 1), None)
            if twice is not None:
                raise InputError(f"a {what} occurs twice", given=twice)
        strange = next((s.domain for s in self.subclusters if s.domain not in self.domains), None)
        if strange is not None:
            raise InputError("a sub-cluster is of no known domain", given=strange, expected=", ".join(self.domains))
        for keys in (self.domain_keys, self.keys):
            if not (np.abs(np.linalg.norm(keys, axis=1) - 1) < _UNIT_TOLERANCE).all():
                raise InputError("a prototype's key is no unit vector")

    def rows_of(self, domain: str) -> list[int]:
        """Which rows of `keys` are of this domain, in their order; empty where it has no sub-clusters.

        Raises:
            InputError: there is no such domain.
        """
        if domain not in self.domains:
            raise InputError("there is no such domain", given=domain, expected=", ".join(self.domains))
        return [row for row, subcluster in enumerate(self.subclusters) if subcluster.domain == domain]

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder whose keys are not these prototypes' own.

        Raises:
            EncoderError: it is another one.
        """
        if encoder.fingerprint != self.encoder_fingerprint:
            raise EncoderError(
                "the prototypes were made by another sentence encoder",
                given=f"{encoder.name} ({encoder.fingerprint[:12]})",
                expected=self.encoder_fingerprint[:12],
            )

    def without(self, rows: Collection[int]) -> "Prototypes":
        """The same without some sub-clusters; what they held is then routed elsewhere."""
        kept = [row for row in range(len(self.subclusters)) if row not in set(rows)]
        return replace(
            self,
            subclusters=tuple(self.subclusters[row] for row in kept),
            keys=self.keys[kept],
            members=tuple(self.members[row] for row in kept),
        )

    def with_history(self, history: History) -> "Prototypes":
        """The same, told by what was done instead of by ids: a row that is read at every start keeps its size."""
        return replace(self, members=((),) * len(self.members), history=history)

    def extended(
        self, subcluster: SubCluster, key: Float32[np.ndarray, " E"], members: Sequence[int] = ()
    ) -> "Prototypes":
        """The same with one more sub-cluster, last.

        Raises:
            InputError: the domain is unknown, the name is taken, or the key is no unit vector of this width.
        """
        if key.shape != self.keys.shape[1:]:
            raise InputError("this key is of another width", given=key.shape, expected=self.keys.shape[1:])
        return replace(
            self,
            subclusters=(*self.subclusters, subcluster),
            keys=np.concatenate([self.keys, key[None]]),
            members=(*self.members, tuple(members)),
        )

    def to_json(self) -> dict[str, object]:
        """A JSON object; keys as base64 of little-endian 32-bit floats, so that nothing is rounded."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "encoder_fingerprint": self.encoder_fingerprint,
            "dim": self.keys.shape[1],
            "domains": [
                {"name": name, "key": _packed(key)} for name, key in zip(self.domains, self.domain_keys, strict=True)
            ],
            "subclusters": [
                {
                    "domain": subcluster.domain,
                    "name": subcluster.name,
                    "kind": subcluster.kind,
                    "seeds": list(subcluster.seeds),
                    "members": list(members),
                    "key": _packed(key),
                }
                for subcluster, key, members in zip(self.subclusters, self.keys, self.members, strict=True)
            ],
            "history": self.history.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> "Prototypes":
        """What `to_json` wrote, bit for bit; or a document of the first version, which had no history.

        Raises:
            InputError: another form or version, an unknown or missing key, keys of another width, or parts that do not
                fit together.
        """
        is_first = isinstance(value, dict) and value.get("version") == _FIRST_VERSION
        table = _table(value, _KEYS - {"history"} if is_first else _KEYS, "prototypes")
        version = table["version"]
        if table["format"] != _FORMAT or type(version) is not int or version not in (_FIRST_VERSION, _VERSION):
            raise InputError(
                "these are no prototypes of a known version",
                given=f"{table['format']!r}, {version!r}",
                expected=f"{_FORMAT}, {_FIRST_VERSION} or {_VERSION}",
            )
        dim, fingerprint = table["dim"], table["encoder_fingerprint"]
        if type(dim) is not int or dim < 1 or not isinstance(fingerprint, str):
            raise InputError("these prototypes say not what made them", given=f"dim {dim!r}, encoder {fingerprint!r}")
        domains = [_table(entry, _DOMAIN_KEYS, "domain") for entry in _entries(table["domains"], "domains")]
        rows = [
            _table(entry, _SUBCLUSTER_KEYS, "sub-cluster") for entry in _entries(table["subclusters"], "subclusters")
        ]
        return cls(
            tuple(_text(entry["name"], "a domain's name") for entry in domains),
            _stacked([_unpacked(entry["key"], dim, f"domain {entry['name']}") for entry in domains], dim),
            tuple(_subcluster(entry) for entry in rows),
            _stacked([_unpacked(entry["key"], dim, f"sub-cluster {entry['name']}") for entry in rows], dim),
            fingerprint,
            tuple(_members(entry["members"], f"sub-cluster {entry['name']}") for entry in rows),
            History() if is_first else History.from_json(table["history"]),
        )


def from_seeds(subclusters: Sequence[SubCluster], encoder: Encoder) -> Prototypes:
    """Prototypes of labelled sentences: the normalised mean of their keys; a domain's over all its sentences.

    Args:
        subclusters: with at least one seed each, as `read_seeds` gives them; every domain of `DOMAINS` occurs.
        encoder: makes the keys; a few hundred short sentences take a second or two, so keep the result.

    Raises:
        InputError: a sub-cluster has no seeds, a domain has no sub-clusters, or seeds cancel out.
    """
    bare = next((s for s in subclusters if not s.seeds), None)
    if bare is not None:
        raise InputError("a sub-cluster has no seeds", given=f"{bare.domain} ▸ {bare.name}")
    missing = next((domain for domain in DOMAINS if domain not in {s.domain for s in subclusters}), None)
    if missing is not None:
        raise InputError("a domain has no sub-clusters", given=missing)
    keys_of = [np.stack([mean_key(k) for k in encoder.encode_passages(list(s.seeds))]) for s in subclusters]
    domain_keys = [
        mean_key(np.concatenate([k for s, k in zip(subclusters, keys_of, strict=True) if s.domain == domain]))
        for domain in DOMAINS
    ]
    return Prototypes(
        DOMAINS,
        np.stack(domain_keys),
        tuple(subclusters),
        np.stack([mean_key(keys) for keys in keys_of]),
        encoder.fingerprint,
        tuple(() for _ in subclusters),
    )


_OWN: dict[str, Prototypes] = {}


def own_prototypes(encoder: Encoder) -> Prototypes:
    """Those of the seeds that come with the program: made once in a process and for an encoder, then looked up."""
    found = _OWN.get(encoder.fingerprint)
    if found is None:
        found = _OWN[encoder.fingerprint] = from_seeds(read_seeds(), encoder)
    return found


def mean_key(keys: Float32[np.ndarray, "N E"]) -> Float32[np.ndarray, " E"]:
    """The mean of keys, of unit norm: of a text's windows, or of a group's texts.

    Summed in double precision, in row order, so that the same rows give the same bits.

    Raises:
        InputError: there are no keys, or they cancel out.
    """
    mean = keys.astype(np.float64).sum(axis=0) / max(len(keys), 1)
    norm = math.sqrt(float(mean @ mean))
    if not len(keys) or not math.isfinite(norm) or norm < 1e-9:
        raise InputError("there is no mean of these keys", given=f"{len(keys)} keys")
    return np.asarray(mean / norm, dtype=np.float32)


def _packed(key: Float32[np.ndarray, " E"]) -> str:
    return base64.b64encode(key.astype("<f4").tobytes()).decode("ascii")


def _unpacked(value: object, dim: int, place: str) -> Float32[np.ndarray, " E"]:
    try:
        raw = base64.b64decode(_text(value, place), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("a prototype's key is damaged", given=place) from error
    if len(raw) != 4 * dim:
        raise InputError(
            "a prototype's key is of another width", given=f"{place}: {len(raw)} bytes", expected=f"{4 * dim}"
        )
    return np.frombuffer(raw, "<f4").astype(np.float32)


def _stacked(keys: list[Float32[np.ndarray, " E"]], dim: int) -> Float32[np.ndarray, "N E"]:
    return np.stack(keys) if keys else np.zeros((0, dim), np.float32)


def _subcluster(entry: dict[str, object]) -> SubCluster:
    name = _text(entry["name"], "a sub-cluster's name")
    if entry["kind"] not in KINDS:
        raise InputError("a sub-cluster is of one of two kinds", given=f"{name}: {entry['kind']!r}", expected="A or B")
    seeds = tuple(_text(seed, f"{name}, seeds") for seed in _entries(entry["seeds"], f"{name}, seeds"))
    return SubCluster(_text(entry["domain"], f"{name}, domain"), name, entry["kind"], seeds)


def _members(value: object, place: str) -> tuple[int, ...]:
    found = _entries(value, place)
    if not all(type(member) is int for member in found):
        raise InputError("the members of a prototype are numbers of deposits", given=place)
    return tuple(cast(list[int], found))


def _table(value: object, keys: set[str], place: str) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != keys:
        given = ", ".join(sorted(map(str, value))) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{place} cannot be read", given=given, expected=", ".join(sorted(keys)))
    return value


def _entries(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise InputError("prototypes cannot be read", given=place, expected="a list")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError("prototypes cannot be read", given=place, expected="a text")
    return value
