"""A text in several pieces, cut between sentences, each of which is read alone."""

from precog.text.chunking.sentence import sentence_cuts

__all__ = ["pieces_of"]


def pieces_of(text: str, count: int) -> list[str]:
    """A text in pieces of about equal numbers of characters; white space around each is left out.

    The i-th cut is the one between two sentences that lies nearest to i / count of the text.

    Args:
        text: that is cut.
        count: pieces, 1 or more; fewer come out of a text that has fewer sentences. A single piece is the text itself.
    """
    cuts = list(sentence_cuts(text))
    last = min(count - 1, len(cuts))
    if not last:
        return [text]
    chosen: list[int] = []
    first = 0
    for number in range(1, last + 1):
        left = range(first, len(cuts) - (last - number))  # the cuts to come need one each
        nearest = min(left, key=lambda place: abs(cuts[place] - number * len(text) / (last + 1)))
        chosen.append(cuts[nearest])
        first = nearest + 1
    return [text[start:end].strip() for start, end in zip([0, *chosen], [*chosen, len(text)], strict=True)]
