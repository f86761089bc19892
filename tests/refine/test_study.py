import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from read_texts import BARE, HELM, MARROW, OUSE, TEXTS, Read

from precog.backbones.protocol import Backbone, LearnableBackbone
from precog.backbones.registry import load_backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.backbones.tiny import make_tiny
from precog.errors import ForeignStateError, UsageError
from precog.refine import objective
from precog.refine import study as study_module
from precog.refine.descent import Outcome
from precog.refine.study import Studied, StudySettings, check_can_study, study
from precog.state import State
from precog.text.tokenizer import MistralTokenizer, load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
SETTINGS = StudySettings(4)


@pytest.fixture(scope="module")
def read() -> Read:
    return Read.by(TennsBackbone.random("tiny-outer", TOKENIZER), [*TEXTS, BARE])


@pytest.fixture(scope="module")
def studied(read: Read) -> list[Studied]:
    return made(read)


def made(read: Read, settings: StudySettings = SETTINGS, titles: list[str] | None = None) -> list[Studied]:
    titles = [""] * len(read.texts) if titles is None else titles
    return study(read.backbone, read.texts, titles, read.token_ids, read.states, settings)


def same(one: State, other: State) -> bool:
    tails = (one.tail, other.tail)
    return (
        torch.equal(one.recurrent, other.recurrent)
        and torch.equal(one.decay_time, other.decay_time)
        and (tails[0] is tails[1] is None or torch.equal(*tails))  # type: ignore[arg-type]  # both or none
        and (one.num_tokens, one.fingerprint, one.encoding_dtype)
        == (other.num_tokens, other.fingerprint, other.encoding_dtype)
    )


def test_states_come_back_refined_or_as_they_were_read(read: Read, studied: list[Studied]) -> None:
    assert studied[0].refined
    assert studied[2].refined
    for before, one in zip(read.states, studied, strict=True):
        assert one.refined == (not one.reason) == (one.loss_after < one.loss_before)
        assert one.refined != same(before, one.state)
        state = one.state
        assert state.recurrent.dtype == torch.float32
        assert (state.num_tokens, state.fingerprint) == (before.num_tokens, before.fingerprint)
        assert torch.equal(state.decay_time, before.decay_time)
        assert state.is_live == before.is_live
        moved = (state.recurrent - before.recurrent).pow(2).mean(-1) / before.recurrent.pow(2).mean(-1)
        assert float(moved.sqrt().max()) <= 0.0101
        assert one.seconds > 0
    [logits, other] = [read.backbone.prefill([1, 500], one)[1] for one in (read.states[0], studied[0].state)]
    assert not torch.equal(logits, other)  # and is asked as any other


def test_a_text_without_questions_stays_as_it_was_read(studied: list[Studied]) -> None:
    bare = studied[-1]
    assert (bare.refined, bare.steps, bare.reason) == (False, 0, "no questions")
    assert math.isnan(bare.loss_before)
    assert math.isnan(bare.loss_after)


def test_nothing_but_such_texts(read: Read) -> None:
    bare = Read.by(read.backbone, [BARE, "It rains."])
    assert [one.reason for one in made(bare)] == ["no questions"] * 2
    assert study(read.backbone, [], [], [], [], SETTINGS) == []


def test_it_is_the_same_again(read: Read, studied: list[Studied]) -> None:
    for one, other in zip(studied, made(read), strict=True):
        assert dataclasses.astuple(one)[1:5] == pytest.approx(dataclasses.astuple(other)[1:5], abs=0, nan_ok=True)
        assert same(one.state, other.state)


def test_alone_and_in_another_order_it_is_the_same(
    read: Read, studied: list[Studied], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_module, "GROUP_CHUNKS", 1)
    other = Read.by(read.backbone, read.texts[::-1])
    for one, again in zip(studied, made(other)[::-1], strict=True):
        assert (one.refined, one.reason) == (again.refined, again.reason)
        torch.testing.assert_close(one.state.recurrent, again.state.recurrent, rtol=0, atol=1e-4)


def test_the_seconds_of_chunks_add_up(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines = []
    clock = iter([100.0, 108.0])

    def spied(*_args: object, deadline: float, **_how: object) -> list[Outcome]:
        deadlines.append(deadline)
        return [Outcome(None, 0, 2.0, math.nan, "no time")] * 3

    monkeypatch.setattr(study_module, "descend", spied)
    monkeypatch.setattr(study_module.time, "perf_counter", lambda: next(clock))
    found = made(read, StudySettings(1, 2.5))
    assert deadlines == [110.0]
    assert [one.seconds for one in found] == [2.0] * 4


def test_no_time_is_said(read: Read) -> None:
    found = made(read, StudySettings(4, 1e-9))
    assert [one.reason for one in found] == ["no time"] * 3 + ["no questions"]
    assert all(same(one.state, before) for one, before in zip(found, read.states, strict=True))


def test_it_stops_when_it_is_asked_to(read: Read) -> None:
    with pytest.raises(KeyboardInterrupt):
        study(read.backbone, read.texts, [""] * 4, read.token_ids, read.states, SETTINGS, lambda: True)


@pytest.mark.parametrize("preset", ["tiny", "tiny-outer"])
@pytest.mark.parametrize("boundary", ["segment", "carried"])
def test_states_of_every_shape_are_asked_as_the_model_answers(
    preset: str, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "FREE", 1.0)
    config = dataclasses.replace(TennsConfig.preset(preset), conv_boundary=boundary)
    read = Read.by(TennsBackbone.wrap(build(config, 2), TOKENIZER), TEXTS)
    found = made(read, StudySettings(1))
    for before, one, exercises in zip(read.states, found, read.exercises, strict=True):
        assert one.steps == 1
        losses = []
        for asked in exercises.held_out:
            scores = read.backbone.prefill_logits(asked.token_ids, before)[1].log_softmax(-1)
            answer = range(asked.num_prompt, len(asked.token_ids))
            losses.append(-sum(float(scores[at - 1, asked.token_ids[at]]) for at in answer) / len(answer))
        assert one.loss_before == pytest.approx(sum(losses) / len(losses), abs=1e-4)
        assert one.state.is_live == before.is_live == (boundary == "carried")
        assert one.state.tail is before.tail is None or torch.equal(one.state.tail, before.tail)  # type: ignore[arg-type]


def test_bfloat16_can_be_studied_with() -> None:
    backbone = TennsBackbone.wrap(build(TennsConfig.preset("tiny-outer")), TOKENIZER, dtype=torch.bfloat16)
    found = made(Read.by(backbone, [MARROW]))
    assert found[0].reason in ("", "no better")
    assert (found[0].steps, found[0].state.encoding_dtype) == (4, "bfloat16")


def test_states_of_another_model_are_refused(read: Read) -> None:
    other = TennsBackbone.random("tiny", TOKENIZER)
    with pytest.raises(ForeignStateError):
        study(other, read.texts, [""] * 4, read.token_ids, read.states, SETTINGS)


class Recording(MistralTokenizer):
    """Writes down every text it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.texts.append(text)
        return super().encode(text)


def test_nothing_but_text_and_title_is_learnt_from() -> None:
    tokenizer = Recording()
    read = Read.by(TennsBackbone.random("tiny", tokenizer), [MARROW, OUSE, HELM])
    titles = ["Zyxom", "Qorvat", "Wumpel"]
    own = ["Marrow", "Kentmere", "Ingrid"]

    def told(chunks: slice) -> set[str]:
        tokenizer.texts.clear()
        study(read.backbone, read.texts[chunks], titles[chunks], read.token_ids[chunks], read.states[chunks], SETTINGS)
        return set(tokenizer.texts)

    alone = [told(slice(chunk, chunk + 1)) for chunk in range(3)]
    for chunk, texts in enumerate(alone):
        assert len(texts) > 10
        assert read.texts[chunk] in texts
        everything = "\n".join(texts)
        assert own[chunk] in everything
        others = [word for k in range(3) if k != chunk for word in (own[k], titles[k])]
        assert not [word for word in others if word in everything]
    assert told(slice(0, 3)) == set().union(*alone)  # what is studied together learns nothing of each other


def hosted(folder: Path) -> Backbone:
    return load_backbone(str(make_tiny("mamba", folder / "mamba")))


def packed(folder: Path) -> Backbone:
    network = build(TennsConfig.preset("tiny-outer"))
    save_model(folder / "q", network, name="tiny", tokenizer_sha256=TOKENIZER.sha256, matrices="int4:32")
    return load_backbone(str(folder / "q"), dtype="packed")


@pytest.mark.parametrize("make", [hosted, packed])
def test_models_without_gradients_are_refused(tmp_path: Path, make: Callable[[Path], Backbone]) -> None:
    backbone = make(tmp_path)
    with pytest.raises(UsageError, match="cannot be studied with: it gives no gradients") as error:
        check_can_study(backbone)
    assert error.value.given == f"{backbone.card.name}, {backbone.encoding_dtype}"
    assert error.value.hint == "leave --study-steps out, or --dtype float32"
    assert "\n" not in str(error.value)
    ids = backbone.tokenizer.encode("The lamp burned oil.")
    with pytest.raises(UsageError):
        study(backbone, ["The lamp burned oil."], [""], [ids], backbone.encode_chunks([ids]), SETTINGS)


def test_a_model_of_ones_own_can_be_studied_with(read: Read) -> None:
    assert isinstance(read.backbone, LearnableBackbone)
    check_can_study(read.backbone)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_it_is_the_same_again_and_near_the_cpu(read: Read, studied: list[Studied]) -> None:
    model = build(TennsConfig.preset("tiny-outer"))
    on_gpu = Read.by(TennsBackbone.wrap(model, TOKENIZER, name="tiny-outer", device="cuda"), read.texts)
    first, again = made(on_gpu), made(on_gpu)
    for one, other, near in zip(first, again, studied, strict=True):
        assert same(one.state, other.state)
        assert one.loss_before == pytest.approx(near.loss_before, abs=1e-3, nan_ok=True)
