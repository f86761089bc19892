import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from precog.corpus.search import Found
from precog.index import SearchHit
from precog.session.ranking import answers_first, joint_order
from precog.session.reply import SessionEvidence
from precog.store import Chunk, ChunkInfo, Location
from precog.text.question import is_mostly_question


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


TURNS = ["He is a beagle.", "Congratulations! What breed is Biscuit?", "We have a dog called Biscuit.", "And his age?"]
REPLIES = {TURNS[1]: TURNS[0], TURNS[3]: "Three years."}


def ranked(*turns: str) -> list[str]:
    return answers_first(turns, lambda turn: turn, REPLIES.get)


def test_a_question_makes_room_for_its_answer() -> None:
    assert ranked(TURNS[1], TURNS[2], TURNS[0]) == [TURNS[0], TURNS[2], TURNS[1]]
    assert ranked(TURNS[2], TURNS[3]) == [TURNS[2], "Three years.", TURNS[3]]
    assert ranked("What breed?", TURNS[2]) == [TURNS[2], "What breed?"]
    assert ranked("Who knows?") == ["Who knows?"]
    long = "I took our new puppy to the beach for the first time yesterday. How was your day?"
    assert ranked(long, TURNS[2]) == [long, TURNS[2]]


@given(st.lists(st.sampled_from([*TURNS, "Three years.", "What breed?"]), unique=True))
def test_nothing_is_lost_and_nothing_stands_twice(found: list[str]) -> None:
    order = ranked(*found)
    assert set(found) <= set(order) <= set(found) | set(REPLIES.values())
    assert len(order) == len(set(order))
    assert [turn for turn in found if not is_mostly_question(turn)] == [
        turn for turn in order if turn in found and not is_mostly_question(turn)
    ] or any(turn in REPLIES for turn in found)
