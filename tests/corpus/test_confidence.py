"""An answer is judged by what was fitted to states like the one it comes from: focused on a sentence, or read once."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_corpus import WordEncoder, run, write

from precog.backbones.card import Json
from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus import ask as ask_module
from precog.corpus.ask import Asker, AskOptions
from precog.engine.confidence import Calibration
from precog.evaluate.parts import Parts
from precog.evaluate.reader import ParagraphReader
from precog.state import codec_named

SINGLE = "Somebody else paints boats today"
LIGHTHOUSE = "The tower of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil. Otto Brand is its keeper."
QUESTION, ABOUT_BOATS = "Which oil burns in its lamp?", "Who paints boats today?"
OF_READ: dict[str, Json] = {"bias": 0.0, "weights": {}, "threshold": 0.25, "fitted": {}}  # 0.5
OF_FOCUSED: dict[str, Json] = {"bias": -1.0, "weights": {}, "threshold": 0.75, "fitted": {}}  # 0.27
BOTH: dict[str, Json] = {**OF_READ, "focused": OF_FOCUSED}
Knowing = Callable[[Mapping[str, Json]], TennsBackbone]


@pytest.fixture
def knowing(backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch) -> Knowing:
    """The model that corpora are asked with, its card holding coefficients."""

    def make(confidence: Mapping[str, Json]) -> TennsBackbone:
        made = copy(backbone)
        made.card = replace(backbone.card, confidence=confidence)
        monkeypatch.setattr(ask_module, "open_model", lambda *_: made)
        return made

    return make


@pytest.fixture
def corpus(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> Path:
    write(tmp_path / "docs", "one.txt", SINGLE)
    docs = write(tmp_path / "docs", "several.txt", LIGHTHOUSE).parent
    run(tmp_path / "c", docs, backbone, encoder, codec="fp32", quality="study")
    return tmp_path / "c"


@pytest.mark.parametrize(("confidence", "of_focused"), [(BOTH, OF_FOCUSED), (OF_READ, OF_READ)])
def test_an_answer_from_a_focused_state_has_a_confidence_and_a_threshold_of_its_own(
    corpus: Path, knowing: Knowing, encoder: WordEncoder, confidence: dict[str, Json], of_focused: dict[str, Json]
) -> None:
    backbone = knowing(confidence)
    with Asker(corpus, encoder=encoder) as asker:
        for question, mode, focused in (
            (QUESTION, "inject", (True,)),
            (QUESTION, "in-context", ()),
            (ABOUT_BOATS, "inject", (False,)),
        ):
            own = Calibration.from_json(of_focused if any(focused) else OF_READ)
            given = asker.ask(question, AskOptions(mode=mode))
            assert given.mixture.focused == focused
            assert (given.confidence, given.threshold) == (own.probability({}), own.threshold)
            assert given.abstained == (own == Calibration.from_json(OF_FOCUSED))
            asked = asker.ask(question, AskOptions(mode=mode, min_confidence=own.probability({})))
            assert (asked.abstained, asked.threshold) == (False, own.probability({}))
        free = asker.ask(QUESTION, AskOptions(free=True, max_tokens=2))
        assert (free.confidence, free.threshold) == (None, None)
        grounded = asker._grounded
    reader = ParagraphReader(backbone, "fp32", grounded, parts=Parts(backbone, encoder, codec_named("fp32")))
    said = [reader.inject(QUESTION, [text], [1.0], 1.0).confidence for text in (LIGHTHOUSE, SINGLE)]
    assert said == [Calibration.from_json(of).probability({}) for of in (of_focused, OF_READ)]
    assert reader.in_context(QUESTION, LIGHTHOUSE).confidence == 0.5


def test_of_several_sources_the_one_that_an_answer_stands_in_decides(
    corpus: Path, knowing: Knowing, encoder: WordEncoder
) -> None:
    knowing(BOTH)
    with Asker(corpus, encoder=encoder) as asker:
        seen = []
        for question in (QUESTION, ABOUT_BOATS):
            options = AskOptions(inject=2, top_k=2, always_answer=True, compose_temperature=0.01)
            answer = asker.ask(question, options)
            assert sorted(answer.mixture.focused) == [False, True]
            assert answer.citation is not None
            is_focused = answer.mixture.focused[answer.citation.source]
            own = Calibration.from_json(OF_FOCUSED if is_focused else OF_READ)
            assert (answer.confidence, answer.threshold) == (own.probability({}), own.threshold)
            seen.append(is_focused)
    assert seen == [True, False]
