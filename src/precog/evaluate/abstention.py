"""Whether confidence tells when to abstain: each question with its own paragraph, and with wrong ones of its article.

``own`` is the question's paragraph; ``best`` the one that hybrid search finds best of the others, as a retrieval that
fails would bring it; ``random`` any other. Where a title has one paragraph only, the others are those of the file.
States are focused, the right one's and the wrong ones', each on the part of its own paragraph that the question is
about, where the reader keeps parts: that is what users of a studied corpus are answered from.

Two things are asked of one number: whether the answer stands in the paragraph (``passage``: own against wrong), and
whether the answer that is given is right (``answer``: F1 of at least 50 with one that people gave; ``exact`` besides).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from precog.backbones.card import Json
from precog.encoders import Encoder
from precog.engine.confidence import Calibration, Confidence
from precog.engine.evidence import Evidence
from precog.engine.grounded import GroundedSettings
from precog.engine.modes import answer_inject
from precog.engine.templates import question_segment
from precog.errors import InputError, UsageError
from precog.evaluate.calibrating import fit_calibration
from precog.evaluate.experiment import Record
from precog.evaluate.metrics import exact_match, f1
from precog.evaluate.paragraphs import Paragraphs
from precog.evaluate.parts import about_parts
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.reliability import auroc, reliability
from precog.evaluate.retrieving import encoder_of
from precog.evaluate.scores import about
from precog.evaluate.squad_data import Question, ids_sha256

__all__ = ["WRONG", "Abstention", "AbstentionSettings", "fitted_to"]

OWN = "own"
WRONG = ("best", "random")
RIGHT_F1 = 50.0
NUM_SEARCHED = 2  # one of the two best is not the question's own


@dataclass(frozen=True)
class AbstentionSettings:
    """What is measured.

    Attributes:
        wrong: which wrong paragraphs are asked besides.
        codec: how states are stored.
        seed: of the random ones.
    """

    wrong: tuple[str, ...] = WRONG
    codec: str = "fp16"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.wrong or not set(self.wrong) <= set(WRONG):
            raise UsageError("no such wrong paragraph", given=", ".join(self.wrong), expected=", ".join(WRONG))


class Abstention:
    """The experiment.

    Args:
        questions: that are asked.
        everything: the whole file; its paragraphs are the wrong ones.
        reader: model, codec, grounded decoding, and the parts that states are focused on.
        chosen: what is measured.
        calibration: coefficients instead of the model's own; where the reader keeps parts, instead of those of focused
            answers.
        encoder: of sentences, or where it is; the default one when None.

    Raises:
        UsageError: answers are decoded freely, which have no confidence.
        InputError: the file has one paragraph only.
    """

    name = "abstain"

    def __init__(
        self,
        questions: Sequence[Question],
        everything: Sequence[Question],
        reader: ParagraphReader,
        chosen: AbstentionSettings | None = None,
        calibration: Calibration | None = None,
        encoder: Encoder | str | None = None,
    ) -> None:
        if not isinstance(reader.settings, GroundedSettings):
            raise UsageError("a free answer has no confidence", expected="grounded decoding")
        self._chosen = chosen or AbstentionSettings()
        self._questions, self._reader, self._encoder = questions, reader, encoder_of(encoder)
        self._confidence = Confidence.of_model(reader.backbone.card)
        if calibration is not None and reader.parts is None:
            self._confidence = Confidence(calibration, calibration.threshold)
        elif calibration is not None:
            self._confidence = replace(self._confidence, focused=calibration)
        self._everything = list({question.context: question for question in everything}.values())
        if len(self._everything) < 2:
            raise InputError("wrong paragraphs are needed", given="1 paragraph", expected="at least 2")
        self._pools: dict[str, Paragraphs] = {}
        self.settings: dict[str, object] = {
            **asdict(self._chosen),
            "n": len(questions),
            "ids_sha256": ids_sha256(questions),
            "encoder": self._encoder.fingerprint,
            **about(reader.backbone, reader.codec, reader.settings),
            **reader.states.about(),
            **about_parts(reader.parts),
        }

    def __len__(self) -> int:
        return len(self._questions)

    def measure(self, number: int) -> Record:
        """Answer one question from its own paragraph and from wrong ones.

        Returns:
            ``id``, ``question``, ``answers``; ``said``: paragraph ▸ text, em, f1, ``evidence`` by name, ``raw`` (the
            confidence of a model without coefficients), and where the reader keeps parts ``focused``, whether the state
            was: a paragraph of a single part has none.
        """
        question = self._questions[number]
        given = {OWN: question.context} | {kind: self._wrong(question, kind) for kind in self._chosen.wrong}
        self._reader.encode(list(given.values()))
        said = {paragraph: self._answer(question, paragraph) for paragraph in dict.fromkeys(given.values())}
        return {
            "id": question.id,
            "question": question.question,
            "answers": list(question.answers),
            "said": {kind: said[paragraph] for kind, paragraph in given.items()},
        }

    def _wrong(self, question: Question, kind: str) -> str:
        pool = self._pool(question.title)
        if kind == "best":
            found, _ = pool.search(question.question, NUM_SEARCHED)
            found = [text for text in found if text != question.context]
            if found:
                return found[0]
        others = [text for text in pool.texts if text != question.context]
        return random.Random(f"{self._chosen.seed} {question.id}").choice(others)

    def _pool(self, title: str) -> Paragraphs:
        if title not in self._pools:
            own = [question for question in self._everything if question.title == title]
            self._pools[title] = Paragraphs(own if len(own) > 1 else self._everything, encoder=self._encoder)
        return self._pools[title]

    def _answer(self, question: Question, paragraph: str) -> dict[str, object]:
        reader = self._reader
        ids, source = question_segment(reader.backbone, question.question), reader.source(paragraph)
        chosen = reader.focused(question.question, paragraph)
        found = answer_inject(reader.backbone, chosen.state, ids, sources=[source], settings=reader.settings).grounded
        assert found is not None
        text = reader.span_text(found.best, paragraph, source)
        return {
            "text": text,
            "em": exact_match(text, question.answers),
            "f1": f1(text, question.answers),
            "evidence": Evidence.of(found).values(),
            "raw": found.confidence,
            **({} if reader.parts is None else {"focused": chosen.is_focused}),
        }

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """Sum up.

        Returns:
            ``passage`` ▸ ``own_and_best`` …; ``answer`` and ``exact`` ▸ ``own``, ``own_and_best`` …: each as
            `Reliability`, with ``raw_auroc`` of a model without coefficients; ``threshold`` and what it does:
            ``withheld``, ``right_of_given``; ``coefficients``, None where there are none; ``settings``. Where the
            reader keeps parts, threshold and coefficients are those of focused answers; a paragraph of a single part is
            judged by the others, as it is where users ask.
        """
        said = [cast(Mapping[str, Mapping[str, Any]], record["said"]) for record in records]
        seed = self._chosen.seed
        main = self._confidence.where(self._reader.parts is not None)

        def judging(answer: Mapping[str, Any]) -> Confidence:
            return self._confidence.where(answer.get("focused", False))

        def number(answer: Mapping[str, Any]) -> float:
            calibration = judging(answer).calibration
            return float(answer["raw"]) if calibration is None else calibration.probability(answer["evidence"])

        def summed(kinds: Sequence[str], is_right: np.ndarray) -> dict[str, object]:
            scores = np.array([[number(row[kind]) for kind in kinds] for row in said])
            raw = np.array([[float(row[kind]["raw"]) for kind in kinds] for row in said])
            return {**reliability(scores, is_right, seed=seed).to_json(), "raw_auroc": auroc(raw, is_right)}

        def right(kinds: Sequence[str], score: str, least: float) -> np.ndarray:
            return np.array([[row[kind][score] >= least for kind in kinds] for row in said])

        mixed = {f"{OWN}_and_{kind}": (OWN, kind) for kind in self._chosen.wrong}
        all_kinds = (OWN, *self._chosen.wrong)
        given = {
            kind: [row[kind] for row in said if not judging(row[kind]).withholds(number(row[kind]))]
            for kind in all_kinds
        }
        return {
            "passage": {name: summed(kinds, np.tile([True, False], (len(said), 1))) for name, kinds in mixed.items()},
            "answer": {
                name: summed(kinds, right(kinds, "f1", RIGHT_F1)) for name, kinds in {OWN: (OWN,), **mixed}.items()
            },
            "exact": {name: summed(kinds, right(kinds, "em", 100.0)) for name, kinds in {OWN: (OWN,), **mixed}.items()},
            "threshold": main.threshold,
            "withheld": {kind: 1 - len(given[kind]) / len(said) for kind in all_kinds},
            "right_of_given": {
                kind: float(np.mean([answer["f1"] >= RIGHT_F1 for answer in given[kind]])) if given[kind] else None
                for kind in all_kinds
            },
            "coefficients": None if main.calibration is None else main.calibration.to_json(),
            "settings": self.settings,
        }


def fitted_to(records: Sequence[Record], settings: Mapping[str, object]) -> Calibration:
    """The calibration to the answers of an experiment: that the answer stands in the paragraph that was asked.

    Where states are focused, it is one to answers from those that were.

    Raises:
        InputError: too few questions.
    """
    answers = [
        (row, kind == OWN, number)
        for number, record in enumerate(records)
        for kind, row in cast(Mapping[str, Mapping[str, Any]], record["said"]).items()
        if row.get("focused", True)
    ]
    about_data: dict[str, Json] = {
        "questions": len({number for _, _, number in answers}),
        "ids_sha256": str(settings["ids_sha256"]),
        "asked": "whether the answer stands in the passage",
        **({"quality": str(settings["quality"])} if "quality" in settings else {}),
    }
    return fit_calibration(
        [row["evidence"] for row, _, _ in answers],
        [is_own for _, is_own, _ in answers],
        [number for _, _, number in answers],
        about_data,
    )
