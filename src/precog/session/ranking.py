"""One order for what was found in a memory and in a corpus (Section 5.3, Eq. 8)."""

from collections.abc import Iterable, Sequence

from precog.session.reply import SessionEvidence

DEPTH = 5
"""Of either, at least so many are looked at: the nearest of one need not be its first."""


def joint_order(lists: Iterable[Sequence[SessionEvidence]]) -> list[SessionEvidence]:
    """Merges lists that each have an order of their own, by words and meaning, and keep it.

    Scores of words cannot be compared from one index to another, nor can scores that are relative to the best found;
    cosines can. So the r-th of a list stands for the r-th largest cosine of that list: what is nearest decides which
    list comes next, and the list's own order which of it. On questions of SQuAD and of LoCoMo asked of both together
    that brought the right text first more often than any other order that was tried (docs/LOG.md).
    """
    standing = []
    for found in lists:
        cosines = sorted((entry.score for entry in found), reverse=True)
        standing += list(zip(cosines, found, strict=True))
    return [entry for _, entry in sorted(standing, key=lambda pair: -pair[0])]
