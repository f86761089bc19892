"""Many ask one model: each is told what it would be told alone, in turn, and whoever has gone leaves."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from precog.backbones.gates import AlongBackbone, FadingBackbone, GatedBackbone
from precog.backbones.protocol import Backbone, LearnableBackbone
from precog.engine import Sampling, Source, build_suffix_array, decode, decode_mixture, ground, ground_mixture
from precog.engine.conform import JudgedBackbone
from precog.engine.decode import StreamingBackbone
from precog.errors import BoundaryError, CancelledError, ForeignStateError, InputError, LimitError, StateError
from precog.serving import Scheduler
from precog.serving.shared_backbone import shared_as
from precog.state import State
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
TEXTS = [
    f"The {name} was opened in {year} near the old harbour."
    for name, year in zip("abcdefgh", range(1900, 1980, 10), strict=True)
]
QUESTIONS = [
    [1, *TOKENIZER.encode(f"When was the {name} opened" + " again" * (i % 3))] for i, name in enumerate("abcdefgh")
]


def said(stream):
    return [token.token_id for token in stream]


def free(backbone, question, tokens=12, state=None, sampling=None):
    return decode(backbone, state, question, max_tokens=tokens, sampling=sampling, whole_sentences=False)


def at_once(works):
    """Results of works, each in a thread; the error of each that failed."""

    def outcome(work):
        try:
            return work()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(outcome, works))


@contextmanager
def threads(works):
    """Works that go on while the block does; yields their futures."""
    pool = ThreadPoolExecutor(len(works))
    try:
        yield [pool.submit(work) for work in works]
    finally:
        pool.shutdown()


def in_use(scheduler):
    """Requests that are worked on or wait."""
    counts = scheduler.counts
    return counts.active + counts.waiting


def share(scheduler, user="ada"):
    return scheduler.share(user, threading.Event())


def test_a_share_is_a_backbone_and_offers_what_the_model_offers(model):
    class Plain:
        card, tokenizer, encode_mode, spec = model.card, model.tokenizer, model.encode_mode, model.spec
        opening, encoding_dtype, device, fingerprint = model.opening, "float32", model.device, model.fingerprint
        empty_state = reading = encode_chunks = open = prefill = prefill_logits = model.prefill
        read = step = logits = scores = model.read

    with Scheduler(model) as scheduler:
        shared = share(scheduler)
        assert isinstance(shared, Backbone)
        assert isinstance(shared, StreamingBackbone)
        for protocol in (FadingBackbone, GatedBackbone, AlongBackbone, LearnableBackbone):
            assert isinstance(shared, protocol)
        assert not isinstance(shared, JudgedBackbone)
    plain = shared_as(Plain())(Plain(), lambda *_: None, "ada", threading.Event())
    assert isinstance(plain, Backbone)
    for protocol in (FadingBackbone, GatedBackbone, AlongBackbone, LearnableBackbone, JudgedBackbone):
        assert not isinstance(plain, protocol)


def test_every_pass_gives_what_the_model_gives(model):
    chunks = [TOKENIZER.encode(text) for text in TEXTS]
    with Scheduler(model) as scheduler:
        shared = share(scheduler)
        assert shared.fingerprint == model.fingerprint
        assert shared.encode_chunks([]) == []
        for mine, its in zip(shared.encode_chunks(chunks), model.encode_chunks(chunks), strict=True):
            torch.testing.assert_close(mine.recurrent, its.recurrent, atol=1e-5, rtol=1e-4)
            assert mine.num_tokens == its.num_tokens
        state, logits = shared.prefill(QUESTIONS[0])
        live, scores = model.prefill(QUESTIONS[0])
        torch.testing.assert_close(logits, scores)
        assert state.is_live
        torch.testing.assert_close(shared.prefill([5], state)[1], model.prefill([5], live)[1])
        torch.testing.assert_close(shared.prefill_logits(QUESTIONS[0])[1], model.prefill_logits(QUESTIONS[0])[1])
        torch.testing.assert_close(shared.gates(QUESTIONS[0]).steps, model.gates(QUESTIONS[0]).steps)
        torch.testing.assert_close(shared.decay().rates, model.decay().rates)
        along, its = shared.states_along(QUESTIONS[0], [2, 4]), model.states_along(QUESTIONS[0], [2, 4])
        torch.testing.assert_close(along[1].recurrent, its[1].recurrent)


def test_what_is_long_is_read_in_pieces_and_gives_the_same(model):
    question = [1, *(TOKENIZER.encode(" ".join(TEXTS)) * 4)]
    assert len(question) > 512
    with Scheduler(model) as scheduler:
        _, logits = share(scheduler).prefill(question)
        pieces = [len(given[0]) for name, given in model.passes if name == "read"]
    torch.testing.assert_close(logits, model.prefill(question)[1], atol=1e-4, rtol=1e-3)
    assert max(pieces) <= 256
    assert sum(pieces) == len(question)


def test_gradients_reach_states_through_a_share(model):
    recurrent = model.open([model.empty_state()]).recurrent.requires_grad_()
    tokens = torch.tensor([QUESTIONS[0]])
    with Scheduler(model) as scheduler:
        shared = share(scheduler)
        assert shared.gives_gradients
        hidden = shared.hidden_from(recurrent, tokens, torch.tensor([tokens.shape[1]]))
        shared.token_scores(hidden).logsumexp(-1).sum().backward()
    assert recurrent.grad is not None
    assert recurrent.grad.abs().sum() > 0


@pytest.mark.parametrize(("sampled", "steps_first"), [(False, False), (False, True), (True, False), (True, True)])
def test_answers_of_many_are_those_alone(model, until, sampled, steps_first):
    def sampling(number):
        return Sampling(temperature=0.8, top_k=20, seed=number) if sampled and number % 2 else None

    states = [None, *model.encode_chunks([TOKENIZER.encode(text) for text in TEXTS[1:]])]
    alone = [list(free(model, q, 24, states[i], sampling(i))) for i, q in enumerate(QUESTIONS)]
    model.prepare().gate.clear()
    with Scheduler(model) as scheduler:
        scheduler._running._steps_first = steps_first
        works = [
            lambda i=i, q=q: list(free(share(scheduler, f"user {i % 3}"), q, 24, states[i], sampling(i)))
            for i, q in enumerate(QUESTIONS)
        ]
        with threads(works) as futures:
            until(lambda: in_use(scheduler) == len(works))
            model.gate.set()
        together = [future.result() for future in futures]
        assert in_use(scheduler) == 0
    assert [said(tokens) for tokens in together] == [said(tokens) for tokens in alone]
    for mine, its in zip(together, alone, strict=True):
        assert [t.tokens_processed for t in mine] == [t.tokens_processed for t in its]
        assert [t.log_probability for t in mine] == pytest.approx([t.log_probability for t in its], abs=1e-4)
    assert max(len(given) for name, given in model.passes if name == "step") > 1


def test_grounded_answers_and_mixtures_of_many_are_those_alone(model):
    chunks = [TOKENIZER.encode(text) for text in TEXTS]
    states = model.encode_chunks(chunks)
    arrays = [np.array(chunk) for chunk in chunks]
    sources = [Source(array, build_suffix_array(array)) for array in arrays]

    def answers(backbone, i):
        pair, of = [states[i], states[i - 1]], [sources[i], sources[i - 1]]
        mixed = decode_mixture(backbone, pair, [0.5, 0.5], QUESTIONS[i], max_tokens=6, whole_sentences=False)
        return (
            ground(backbone, states[i], QUESTIONS[i], [sources[i]]).best,
            ground_mixture(backbone, pair, [0.7, 0.3], QUESTIONS[i], of).best,
            tuple(said(mixed)),
        )

    alone = [answers(model, i) for i in range(len(chunks))]
    with Scheduler(model) as scheduler:
        together = at_once([lambda i=i: answers(share(scheduler, f"{i}"), i) for i in range(len(chunks))])
    for mine, its in zip(together, alone, strict=True):
        for a, b in zip(mine[:2], its[:2], strict=True):
            assert (a.token_ids, a.occurrences) == (b.token_ids, b.occurrences)
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-4)
        assert mine[2] == its[2]


def test_what_waits_is_read_in_one_pass(model, until):
    questions = [[1, 10], *([1, *range(20 + i, 26 + 2 * i)] for i in range(4)), [1, *range(50, 80)]]
    alone = [said(free(model, q, 3)) for q in questions]
    model.prepare().gate.clear()
    with Scheduler(model) as scheduler, ThreadPoolExecutor(len(questions)) as pool:
        futures = [pool.submit(lambda: said(free(share(scheduler), questions[0], 3)))]
        until(model.at_gate.is_set)
        futures += [pool.submit(lambda q=q: said(free(share(scheduler), q, 3))) for q in questions[1:]]
        until(lambda: in_use(scheduler) == len(questions))
        model.gate.set()
        assert [future.result() for future in futures] == alone
    reads = [sorted(given, key=len) for name, given in model.passes if name == "read"]
    assert reads[0] == questions[:1]  # that which stood at the gate
    assert sorted(reads[1:], key=len) == [questions[5:], questions[1:5]]  # one that is far longer goes by itself


def test_users_take_turns(model, until):
    model.gate.clear()
    mine = [[1, 1000 + i] for i in range(6)]
    with Scheduler(model, max_streams=2) as scheduler, ThreadPoolExecutor(7) as pool:
        for question in mine:
            pool.submit(lambda q=question: said(free(share(scheduler, "greedy"), q, 4)))
        until(lambda: in_use(scheduler) == 6)
        pool.submit(lambda: said(free(share(scheduler, "modest"), [1, 2000], 4)))
        until(lambda: in_use(scheduler) == 7)
        model.gate.set()
    order = [row[1] for name, given in model.passes if name == "read" for row in given]
    assert sorted(order) == [*(1000 + i for i in range(6)), 2000]
    assert order.index(2000) <= 2
    assert max(len(given) for name, given in model.passes if name == "step") <= 2


def test_of_one_user_who_came_first_is_first(model, until):
    model.gate.clear()
    with Scheduler(model, max_streams=1) as scheduler:
        pool = ThreadPoolExecutor(4)
        for i in range(4):
            pool.submit(lambda i=i: said(free(share(scheduler), [1, 1000 + i], 2)))
            until(lambda i=i: in_use(scheduler) == i + 1)
        model.gate.set()
        pool.shutdown()
    assert [row[1] for name, given in model.passes if name == "read" for row in given] == [1000, 1001, 1002, 1003]


def test_chunks_do_not_keep_answers_waiting(model, until):
    chunks = [TOKENIZER.encode(TEXTS[0]) * 4 for _ in range(40)]
    with Scheduler(model) as scheduler:
        stream = free(share(scheduler, "asker"), QUESTIONS[0], 10**6)  # goes on until it is closed
        next(stream)
        with threads([lambda: share(scheduler, "ingest").encode_chunks(chunks)]) as futures:
            states = futures[0].result()
        stream.close()
    assert [state.num_tokens for state in states] == [1 + len(chunk) for chunk in chunks]
    encodes = [i for i, (name, _) in enumerate(model.passes) if name == "encode"]
    assert len(encodes) > 5
    assert all(sum(model.passes[i][1]) <= 256 for i in encodes)
    assert all(b - a > 1 for a, b in pairwise(encodes))  # steps in between


@pytest.mark.parametrize("is_free", [True, False])
def test_ones_own_chunks_do_not_keep_ones_question_waiting(model, until, is_free):
    asking = {True: lambda own: said(free(own, QUESTIONS[0], 1)), False: lambda own: own.prefill(QUESTIONS[0])}[is_free]
    model.gate.clear()
    with Scheduler(model) as scheduler, ThreadPoolExecutor(3) as pool:
        chunks = pool.submit(lambda: share(scheduler).encode_chunks([TOKENIZER.encode(TEXTS[0]) * 4] * 40))
        assert model.at_gate.wait(300)
        others = pool.submit(lambda: share(scheduler, "bob").encode_chunks([TOKENIZER.encode(TEXTS[1]) * 4] * 40))
        until(lambda: in_use(scheduler) == 2)
        answer = pool.submit(lambda: asking(share(scheduler)))
        until(lambda: in_use(scheduler) == 3)
        model.gate.set()
        assert answer.result()
        assert (len(chunks.result()), len(others.result())) == (40, 40)
    names = [name for name, _ in model.passes]
    assert names.index("read") == 2  # after the pass that had begun, and the turn of whoever else waits
    assert names.count("encode") > 8


def test_chunks_have_half_of_the_time_beside_searches(model, monkeypatch, until):
    lasts = {"encode": 1.0, "read": 0.2, "step": 0.2}  # by a clock that nothing else moves, however busy the machine is
    later = 0.0

    def now():
        before = 20.0 if model.passes else 0.0  # what was encoded before anybody asked, which nobody is owed for
        return later + before + sum(lasts[name] for name, _ in model.passes)

    monkeypatch.setattr("precog.serving.scheduler.time", SimpleNamespace(monotonic=now))
    monkeypatch.setattr("precog.serving.scheduler._GAP_SEC", 1.5)
    chunk = TOKENIZER.encode(TEXTS[0])
    source = Source(np.array(chunk), build_suffix_array(np.array(chunk)))
    wanted = ground(model, None, QUESTIONS[0], [source]).best.token_ids
    model.prepare().gate.clear()
    with Scheduler(model) as scheduler, ThreadPoolExecutor(2) as pool:
        chunks = pool.submit(lambda: share(scheduler, "ingest").encode_chunks([chunk * 12] * 80))
        assert model.at_gate.wait(300)
        search = lambda: ground(share(scheduler), None, QUESTIONS[0], [source]).best.token_ids  # noqa: E731
        found = pool.submit(lambda: [search() for _ in range(20)])
        until(lambda: in_use(scheduler) == 2)
        model.gate.set()
        assert found.result() == [wanted] * 20
        later = 100.0
        assert len(chunks.result()) == 80
    names = [name for name, _ in model.passes]
    first, last = names.index("step"), len(names) - names[::-1].index("step")  # before it nobody is known to search
    taken = Counter(names[first:last])
    assert taken["read"] == 19
    others_sec = (taken["read"] + taken["step"]) * 0.2
    assert others_sec / 2 <= taken["encode"] * 1.0 <= others_sec + 1.0  # one on credit


def test_too_many_are_told_to_come_later(model, until):
    model.gate.clear()
    with Scheduler(model, max_streams=1, max_waiting=2) as scheduler:
        late = share(scheduler)  # has the model, has not begun
        with threads([lambda: said(free(share(scheduler), QUESTIONS[0], 2)) for _ in range(3)]):
            until(lambda: in_use(scheduler) == 3)
            for refused in (lambda: share(scheduler), lambda: next(free(late, QUESTIONS[0]))):
                with pytest.raises(LimitError) as caught:
                    refused()
                assert 1 <= caught.value.retry_after_sec <= 60
            model.gate.set()
        assert said(free(late, QUESTIONS[0], 2))


def test_whoever_has_gone_leaves_and_the_others_go_on(model, until):
    alone = said(free(model, QUESTIONS[1], 60))
    with Scheduler(model) as scheduler:
        cancelled = threading.Event()
        gone, closed = (
            free(scheduler.share("a", cancelled), QUESTIONS[0], 10**6),
            free(share(scheduler), QUESTIONS[2], 10**6),
        )
        next(gone), next(closed)
        staying = free(share(scheduler), QUESTIONS[1], 60)
        first = next(staying)
        cancelled.set()
        with pytest.raises(CancelledError):
            said(gone)
        closed.close()
        assert [first.token_id, *said(staying)] == alone
        until(lambda: in_use(scheduler) == 0)
        with pytest.raises(CancelledError):
            scheduler.share("a", cancelled).prefill(QUESTIONS[0])


def test_whoever_goes_while_waiting_is_told(model, until):
    model.gate.clear()
    cancelled = threading.Event()
    with Scheduler(model, max_streams=1) as scheduler:
        works = [
            lambda: scheduler.share("a", cancelled).prefill(QUESTIONS[1]),
            lambda: scheduler.share("a", cancelled).encode_chunks([[5]]),
            lambda: said(free(scheduler.share("a", cancelled), QUESTIONS[1])),
        ]
        with threads([lambda: said(free(share(scheduler, "b"), QUESTIONS[0], 3))]) as others:
            until(model.at_gate.is_set)
            with threads(works) as futures:
                until(lambda: in_use(scheduler) == 4)
                cancelled.set()
                model.gate.set()
            for future in futures:
                with pytest.raises(CancelledError):
                    future.result()
            assert others[0].result()


def test_an_error_is_told_to_whom_it_concerns_alone(model, until):
    empty, wrong = model.empty_state(), [1, 40_000, 7]
    foreign = State.adopt(empty.recurrent, tail=None, num_tokens=0, fingerprint="f" * 64, decay_time=empty.decay_time)
    with Scheduler(model) as scheduler:

        def reads(ids, rows=1):
            return lambda: share(scheduler).read(model.open([empty] * rows), torch.tensor([ids]))

        def steps(ids, rows=1):
            return lambda: share(scheduler).step(model.open([empty] * rows), ids)

        model.gate.clear()
        blocker = [lambda: share(scheduler).prefill([1, 9, 9, 9, 9])]
        works = [
            reads([1, 6, 7]),
            reads(wrong),
            reads([6, 7, 8]),
            reads([1, 6, 7], 2),
            steps([1]),
            steps([5]),
            steps([1], 2),
        ]
        works += [
            lambda: share(scheduler).encode_chunks([[5, 6]]),
            lambda: share(scheduler).encode_chunks([[5], [40_000]]),
        ]
        works += [lambda: said(free(share(scheduler), wrong)), lambda: said(free(share(scheduler), [1, 6, 7], 3))]
        works += [lambda: said(free(share(scheduler), [1], state=foreign)), lambda: share(scheduler).prefill([])]
        works += [lambda: said(free(share(scheduler), []))]
        with threads(blocker):
            until(model.at_gate.is_set)
            with threads(works) as futures:
                until(lambda: in_use(scheduler) == len(works))  # all but the foreign state, and the blocker
                model.gate.set()
        found = [future.exception() for future in futures]
        kinds = [None, InputError, BoundaryError, StateError, None, BoundaryError, StateError, None, InputError]
        kinds += [InputError, None, ForeignStateError, InputError, InputError]
        assert [error and type(error) for error in found] == kinds
        torch.testing.assert_close(
            futures[0].result()[1], model.read(model.open([empty]), torch.tensor([[1, 6, 7]]))[1]
        )
        assert futures[10].result() == said(free(model, [1, 6, 7], 3))


def test_a_bug_fails_what_it_met_and_nothing_after_it(model):
    with Scheduler(model) as scheduler:
        stream = free(share(scheduler), QUESTIONS[0], 10**6)
        next(stream)
        model.breaks = True
        with pytest.raises(RuntimeError, match="broken"):
            said(stream)
        model.breaks = True
        with pytest.raises(RuntimeError, match="broken"):
            share(scheduler).encode_chunks([[5]])
        assert said(free(share(scheduler), QUESTIONS[0], 5)) == said(free(model, QUESTIONS[0], 5))
        assert in_use(scheduler) == 0


@pytest.mark.parametrize("steps_first", [False, True])
def test_a_step_that_fails_is_told_to_whom_it_is_for_and_not_before_what_was_chosen(model, monkeypatch, steps_first):
    def broken(*_):
        raise RuntimeError("broken")

    alone = said(free(model, QUESTIONS[0], 1))
    with Scheduler(model) as scheduler:
        scheduler._running._steps_first = steps_first
        with monkeypatch.context() as patched:
            patched.setattr(model, "step", broken)
            assert said(free(share(scheduler), QUESTIONS[0], 1)) == alone  # nothing is read after its last token
            going_on = free(share(scheduler), QUESTIONS[0], 2)
            assert next(going_on).token_id == alone[0]
            with pytest.raises(RuntimeError, match="broken"):
                next(going_on)
        assert said(free(share(scheduler), QUESTIONS[0], 1)) == alone


@pytest.mark.parametrize("drain", [True, False])
def test_closing_finishes_or_cancels_what_was_asked(model, until, drain):
    model.gate.clear()
    scheduler = Scheduler(model, max_streams=1)
    with threads([lambda: said(free(share(scheduler), QUESTIONS[0], 6))] * 2) as futures:
        until(lambda: in_use(scheduler) == 2)
        with threads([lambda: scheduler.close(drain=drain)]):
            until(lambda: scheduler._is_stopping)
            with pytest.raises(LimitError):
                share(scheduler)
            model.gate.set()
    for future in futures:
        if drain:
            assert future.result() == said(free(model, QUESTIONS[0], 6))
        else:
            assert isinstance(future.exception(), CancelledError)
    scheduler.close()
    with pytest.raises(LimitError):
        share(scheduler)


def test_nobody_waits_for_a_thread_that_is_gone(model, monkeypatch):
    def broken(self):
        raise RuntimeError("no such device")

    monkeypatch.setattr(Scheduler, "_take_in", broken)
    with Scheduler(model) as scheduler:
        share = scheduler.share("ana", threading.Event())
        with pytest.raises((RuntimeError, CancelledError)):
            share.encode_chunks([[5, 6]])


def test_between_two_passes_of_a_share_the_scheduler_may_close(model):
    scheduler = Scheduler(model)
    shared = share(scheduler)
    shared.prefill([1, 5])
    scheduler.close()
    with pytest.raises(CancelledError):
        shared.prefill([1, 5])
