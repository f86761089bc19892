import pytest
import torch
from pretended_study import SPOILT, PretendedStudy

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import UsageError
from precog.refine import study as study_module
from precog.refine.choice import StudyLimits
from precog.refine.quality import QualityStates, states_of, study_settings
from precog.refine.study import StudySettings
from precog.text.tokenizer import load_mistral_tokenizer

TEXTS = ["Ada Quill built the lighthouse of Marrow.", f"It was {SPOILT} in 1843.", "Tom Reed made a wheel of oak."]


@pytest.fixture(scope="module")
def backbone() -> TennsBackbone:
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer())


@pytest.fixture
def studying(monkeypatch: pytest.MonkeyPatch) -> PretendedStudy:
    pretended = PretendedStudy()
    monkeypatch.setattr(study_module, "study", pretended)
    return pretended


def test_states_are_read_and_where_it_is_asked_for_studied(backbone: TennsBackbone, studying: PretendedStudy) -> None:
    ids = [backbone.tokenizer.encode(text) for text in TEXTS]
    read = backbone.encode_chunks(ids)
    only_read = states_of(backbone, TEXTS, [""] * 3, ids)
    assert [studied for _, studied in only_read] == [None] * 3
    assert studying.texts == []
    settings = StudySettings(5, 1.0)
    made = states_of(backbone, TEXTS, ["a", "b", "c"], ids, settings)
    assert (studying.texts, studying.titles, studying.token_ids) == (TEXTS, ["a", "b", "c"], ids)
    assert studying.settings == [settings]
    for one, (plain, _), (state, studied) in zip(read, only_read, made, strict=True):
        assert studied is not None
        torch.testing.assert_close(plain.recurrent, one.recurrent, rtol=0, atol=0)
        torch.testing.assert_close(state.recurrent, one.recurrent * (1.25 if studied.refined else 1), rtol=0, atol=0)


def test_what_became_of_them_is_counted(backbone: TennsBackbone, studying: PretendedStudy) -> None:
    ids = [backbone.tokenizer.encode(text) for text in TEXTS]
    made = QualityStates(backbone, StudySettings(6))
    assert [refined for _, refined in made.make(TEXTS, ids)] == [True, False, True]
    made.make(TEXTS[:1], ids[:1])
    assert made.tally.to_json() == {
        "studied": 4,
        "refined": 3,
        "kept_as_read": {"not a number": 1},
        "study_steps": 16,
        "study_sec": pytest.approx(0.4),
    }
    assert made.about() == {"study": {"steps": 6, "seconds": None, "seed": 0}}
    read = QualityStates(backbone)
    assert [refined for _, refined in read.make(TEXTS, ids)] == [False] * 3
    assert (read.tally.studied, read.about()) == (0, {})


def test_a_model_is_asked_only_where_it_is_to_study(backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_backbone: object) -> None:
        raise UsageError("this model cannot be studied with: no gradients")

    monkeypatch.setattr(study_module, "check_can_study", refuse)
    for quality, limits in (("fast", StudyLimits()), ("twice", StudyLimits()), ("study", StudyLimits(0))):
        assert study_settings(backbone, quality, limits) is None
    assert study_settings(backbone, "study", StudyLimits()) is None  # steps have to be asked for
    with pytest.raises(UsageError):
        study_settings(backbone, "study", StudyLimits(1))
    monkeypatch.undo()
    monkeypatch.setattr(study_module, "check_can_study", lambda _backbone: None)
    assert study_settings(backbone, "study", StudyLimits(7)) == StudySettings(7, None)
