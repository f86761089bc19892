"""Whoever comes and goes, and when: tokens are the loop's."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine import Sampling, decode
from precog.errors import CancelledError
from precog.serving import Scheduler
from precog.text.tokenizer import load_mistral_tokenizer

MODEL = TennsBackbone.random("tiny-outer", load_mistral_tokenizer())
asks = st.tuples(
    st.just("ask"),
    st.lists(st.integers(5, 5000), min_size=1, max_size=4),
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(0, 3)),
    st.booleans(),
)
moves = st.tuples(st.sampled_from(["take", "take", "cancel", "close"]), st.integers(0, 100))


@settings(max_examples=25)
@given(actions=st.lists(st.one_of(asks, moves), max_size=24), max_streams=st.integers(1, 3))
def test_tokens_are_the_loops_whatever_the_schedule(actions, max_streams):
    streams, taken, wanted, events = [], [], [], []
    with Scheduler(MODEL, max_streams=max_streams) as scheduler:
        for action in actions:
            if action[0] == "ask":
                _, ids, tokens, seed, whole = action
                sampling = None if seed is None else Sampling(temperature=1.0, seed=seed)
                chosen = {"max_tokens": tokens, "sampling": sampling, "whole_sentences": whole}
                event = threading.Event()
                wanted.append([t.token_id for t in decode(MODEL, None, [1, *ids], **chosen)])
                shared = scheduler.share(f"user {len(ids)}", event)
                streams.append(decode(shared, None, [1, *ids], **chosen))
                taken.append([])
                events.append(event)
            elif streams:
                number = action[1] % len(streams)
                if action[0] == "cancel":
                    events[number].set()
                elif action[0] == "close":
                    streams[number].close()
                else:
                    _take(streams[number], taken[number], events[number])
        for stream, tokens, event in zip(streams, taken, events, strict=True):
            while _take(stream, tokens, event):
                pass
    closed = {action[1] % len(streams) for action in actions if action[0] == "close"} if streams else set()
    for number, (tokens, whole) in enumerate(zip(taken, wanted, strict=True)):
        assert tokens == whole[: len(tokens)]
        assert tokens == whole or events[number].is_set() or closed


def _take(stream, tokens, event) -> bool:
    try:
        token = next(stream, None)
    except CancelledError:
        assert event.is_set()
        return False
    if token is not None:
        tokens.append(token.token_id)
    return token is not None
