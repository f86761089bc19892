"""The sub-clusters of a memory as a question chooses among them, by meaning and by words alike.

A sub-cluster is as near as the mean of its members and the best BM25 score of one of them, each relative to the nearest
sub-cluster's. By meaning alone, the paper's way, questions about long chats miss more of what was said (docs/LOG.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from precog.index import Worded
from precog.memory.prototypes import mean_key
from precog.memory.routing import Group

_MIN_SCORE = 1e-6


@dataclass(frozen=True, eq=False)
class Groups:
    """The sub-clusters that are not empty.

    Attributes:
        members: ids of what each holds, rising.
        means: the mean of the members' keys, unit norm.
    """

    members: Mapping[Group, Int64[np.ndarray, " _"]]
    means: Mapping[Group, Float32[np.ndarray, " _"]]

    @classmethod
    def of(cls, held: Iterable[tuple[Group, Int64[np.ndarray, " _"], Float32[np.ndarray, "_ _"]]]) -> "Groups":
        """From each sub-cluster's keys: group, whose each key is (rising), the keys; empty ones are left out."""
        members: dict[Group, Int64[np.ndarray, " _"]] = {}
        means: dict[Group, Float32[np.ndarray, " _"]] = {}
        for group, owners, keys in held:
            if len(owners):
                members[group], starts = np.unique(owners, return_index=True)
                means[group] = mean_key(np.stack([mean_key(own) for own in np.split(keys, starts[1:])]))
        return cls(members, means)

    @property
    def num_members(self) -> int:
        """Of all sub-clusters together."""
        return sum(map(len, self.members.values()))

    def ranked(self, key: Float32[np.ndarray, " E"], worded: Worded) -> list[Group]:
        """The sub-clusters, the nearest to a question first; ties go to the one that came first.

        Args:
            key: the question's.
            worded: what its words say of all chunks.
        """
        if not self.members:
            return []
        groups = list(self.members)
        near = np.maximum(np.stack([self.means[group] for group in groups]) @ key, 0)
        words = np.array([worded.of(self.members[group]).max() for group in groups])
        scores = near / max(float(near.max()), _MIN_SCORE) + words / max(float(words.max()), _MIN_SCORE)
        return [groups[number] for number in np.argsort(-scores, kind="stable").tolist()]

    def part(self, groups: Sequence[Group]) -> Int64[np.ndarray, " _"]:
        """All members of some sub-clusters, rising."""
        return np.sort(np.concatenate([np.zeros(0, np.int64), *(self.members[group] for group in groups)]))
