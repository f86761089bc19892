import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from precog.corpus.search import Found
from precog.index import SearchHit
from precog.session.ranking import joint_order
from precog.session.reply import SessionEvidence
from precog.store import Chunk, ChunkInfo, Location


def found(cosines: list[float], source: str) -> list[SessionEvidence]:
    entries = []
    for number, cosine in enumerate(cosines):
        info = ChunkInfo(number, None, (0, 1), f"{source} {number}")
        chunk = Chunk(number, 1, source, info, number, 1, Location(0, number), b"")
        hit = SearchHit(number, 1.0 - number / 10, cosine, 0.0)
        entries.append(SessionEvidence(cosine, corpus=Found(chunk, hit)))
    return entries


def names(entries: list[SessionEvidence]) -> list[str]:
    return [entry.corpus.chunk.info.text for entry in entries if entry.corpus is not None]


def test_the_nearest_decides_the_list_and_the_list_decides_which_of_it() -> None:
    # the memory's first by words and meaning is not its nearest
    memory, corpus = found([0.3, 0.6, 0.1], "memory"), found([0.5, 0.2], "corpus")
    assert names(joint_order([memory, corpus])) == ["memory 0", "corpus 0", "memory 1", "corpus 1", "memory 2"]


@given(st.lists(st.lists(st.floats(-1, 1, width=32), max_size=6), max_size=3))
def test_every_list_keeps_its_order_and_loses_nothing(lists: list[list[float]]) -> None:
    made = [found(cosines, str(number)) for number, cosines in enumerate(lists)]
    order = names(joint_order(made))
    for number, cosines in enumerate(lists):
        own = [name for name in order if name.startswith(f"{number} ")]
        assert own == [f"{number} {place}" for place in range(len(cosines))]
    assert len(order) == sum(map(len, lists))
    if any(lists):
        nearest = max(cosine for cosines in lists for cosine in cosines)
        assert np.isclose(max(lists[int(order[0].split()[0])]), nearest)
