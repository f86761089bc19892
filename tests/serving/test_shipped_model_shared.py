"""The shipped model answers many at once as it answers each; skipped where it is not installed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from precog.backbones.registry import installed_models, load_backbone
from precog.engine import Source, build_suffix_array, decode, ground, question_segment
from precog.serving import Scheduler

NAME = "tenns-base"
pytestmark = [
    pytest.mark.skipif(NAME not in installed_models(), reason="the model distribution is not installed"),
    pytest.mark.slow,
]
SUBJECTS = (
    "The bridge",
    "A letter",
    "The old museum",
    "Her brother",
    "The river",
    "His second novel",
    "The team",
    "Water",
)
OPENERS = [f"{subject} {verb}" for subject in SUBJECTS for verb in ("was", "is known for", "came from", "and the")]
PASSAGE = (
    "The lighthouse at Cape Morrow was designed by Helena Brandt and lit for the first time in 1887. Its keeper, Jonas "
    "Whitlock, counted 412 ships in the first winter. The harbour company bought a generator from Bristol."
)
ASKED = ("Who designed the lighthouse?", "When was it lit?", "Who was the keeper?", "How many ships did he count?")


def free(backbone, text):
    ids = [*backbone.opening, *backbone.tokenizer.encode(text)]
    return [token.token_id for token in decode(backbone, None, ids, max_tokens=16, whole_sentences=False)]


def together(backbone, works):
    with Scheduler(backbone, max_streams=16) as scheduler, ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(lambda work: work(scheduler.share("ada", threading.Event())), works))


@pytest.mark.parametrize("dtype", ["float32", "packed"])
def test_free_answers_are_those_alone(dtype):
    model = load_backbone(NAME, dtype=dtype)
    assert len(OPENERS) == 32
    alone = [free(model, text) for text in OPENERS]
    assert together(model, [lambda share, text=text: free(share, text) for text in OPENERS]) == alone


@pytest.mark.parametrize("dtype", ["float32", "packed"])
def test_grounded_answers_are_those_alone(dtype):
    model = load_backbone(NAME, dtype=dtype)
    ids = np.array(model.tokenizer.encode(PASSAGE))
    [state] = model.encode_chunks([ids.tolist()])
    source = Source(ids, build_suffix_array(ids))

    def answer(backbone, question):
        return ground(backbone, state, question_segment(backbone, question), [source]).best.token_ids

    alone = [answer(model, question) for question in ASKED]
    assert together(model, [lambda share, q=q: answer(share, q) for q in ASKED]) == alone
