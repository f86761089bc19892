"""SQuAD v1.1 in every mode, paired on the same questions (paper Table 3; ERRATA 12, 13).

Modes: ``in_context`` reads paragraph and question in one pass, the paragraph as often as its state has ·
``in_context_once`` once, whatever the state has · ``inject_top1`` starts from the paragraph's stored state ·
``inject_top3`` from three composed states · ``none`` has no context and decodes freely · ``mask_only`` is the grounded
mask over an empty state · ``other`` the state of a wrong paragraph under the right mask.

States of quality ``study`` are focused on the part of their paragraph that the question is nearest to; where that is in
doubt, one paragraph's answers are mixed with those of a state focused on the next. Two more modes, asked for by name,
tell what the nearest part is worth: ``in_context_part`` reads it once more behind the paragraph · ``inject_part``
starts from its state alone.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np

from precog.encoders import Encoder
from precog.engine.composed import Composing
from precog.errors import UsageError
from precog.evaluate.experiment import Record
from precog.evaluate.metrics import exact_match, f1
from precog.evaluate.paragraphs import Paragraphs
from precog.evaluate.parts import Focused, about_parts
from precog.evaluate.reader import ParagraphReader, Said
from precog.evaluate.regex_baseline import answer_by_rule
from precog.evaluate.retrieving import encoder_of
from precog.evaluate.scores import Scored, about, f1_gain, table_row
from precog.evaluate.squad_data import Question, ids_sha256
from precog.refine.choice import FAST, STUDY

NUM_FOUND = 10
"""Paragraphs that are searched for: recall beyond it is not told."""
IN_CONTEXT_ONCE = "in_context_once"
"""One pass over a paragraph that states have read twice; asked for by name."""
PART_MODES = ("in_context_part", "inject_part")
"""Controls of states that are focused; asked for by name."""
MODES = ("in_context", "inject_top1", "inject_top3", "none", "mask_only", "other")


@dataclass(frozen=True)
class SquadSettings:
    """What is measured.

    Attributes:
        modes: in the order of the report.
        context: ``gold`` hands over the question's own paragraph; ``retrieved`` the best of all paragraphs.
        compose_temperature: of the softmax over retrieval scores in ``inject_top3``.
        seed: of the wrong paragraphs of ``other``.
        quality: of the reader's states.
    """

    modes: tuple[str, ...] = MODES
    context: str = "gold"
    compose_temperature: float = 1.0
    seed: int = 0
    quality: str = FAST

    def __post_init__(self) -> None:
        known = (*MODES, IN_CONTEXT_ONCE, *PART_MODES)
        unknown = sorted(set(self.modes) - set(known))
        if unknown or not self.modes:
            raise UsageError("--modes: no such mode", given=", ".join(unknown) or "none", expected=", ".join(known))
        needing = [mode for mode in self.modes if mode in PART_MODES]
        if needing and self.quality != STUDY:
            name = f"--modes {','.join(needing)}"
            raise UsageError(f"{name} needs --quality {STUDY}", given=f"--quality {self.quality}")
        if self.context not in ("gold", "retrieved"):
            raise UsageError("--context: no such choice", given=self.context, expected="gold or retrieved")
        Composing(temperature=self.compose_temperature)  # refuses what is no temperature


@dataclass(frozen=True)
class _Given:
    question: str
    paragraph: str
    three: Sequence[str]
    scores: Sequence[float]
    other: str
    focused: Mapping[str, Focused]


class Squad:
    """SQuAD v1.1 as an experiment: one item per question, answered in every mode.

    Args:
        questions: the subset that is scored.
        everything: the whole file; its paragraphs are what retrieval searches and wrong paragraphs are drawn from.
        reader: model, codec and decoding.
        chosen: what is measured.
        encoder: sentence encoder, or its name; the default one when None.
        keys_folder: where keys of paragraphs are kept for the next time.
    """

    name = "squad"

    def __init__(
        self,
        questions: Sequence[Question],
        everything: Sequence[Question],
        reader: ParagraphReader,
        chosen: SquadSettings,
        encoder: Encoder | str | None = None,
        keys_folder: Path | None = None,
    ) -> None:
        self._questions, self._reader, self._chosen = questions, reader, chosen
        self._texts = sorted({question.context for question in everything})
        self._paragraphs: Paragraphs | None = None
        loaded = None if reader.parts is None else reader.parts.encoder
        if chosen.context == "retrieved" or "inject_top3" in chosen.modes:
            loaded = encoder_of(encoder)
            self._paragraphs = Paragraphs(everything, encoder=loaded, keys_folder=keys_folder)
        self.settings: dict[str, object] = {
            "modes": list(chosen.modes),
            "context": chosen.context,
            "compose_temperature": chosen.compose_temperature,
            "seed": chosen.seed,
            "n": len(questions),
            "ids_sha256": ids_sha256(questions),
            "searched_sha256": sha256("\0".join(self._texts).encode()).hexdigest(),
            "encoder": None if loaded is None else loaded.fingerprint,
            **about(reader.backbone, reader.codec, reader.settings),
            **reader.states.about(),
            **about_parts(reader.parts),
        }

    def __len__(self) -> int:
        return len(self._questions)

    def measure(self, number: int) -> Record:
        """Answer one question in every mode.

        Returns:
            ``id``, ``question``, ``answers``; ``rank`` of its paragraph, None where nothing was searched, and 10 for
            any rank from there on; ``bytes`` of the states of the paragraph and its parts, and ``offline_sec`` that
            they took; ``part_hit``, whether the part that was chosen holds an answer word for word, and ``in_doubt``,
            whether others were as near, None where there are no parts; ``said``: mode ▸ text, confidence,
            tokens_processed, latency_sec, first_token_sec.
        """
        question, chosen = self._questions[number], self._chosen
        found, scores = self._paragraphs.search(question.question, NUM_FOUND) if self._paragraphs else ([], [])
        first = question.context if chosen.context == "gold" or not found else found[0]
        three, weights = found[:3], scores[:3]
        if chosen.context == "gold" and found and question.context not in three:
            three, weights = [question.context, *three[:2]], [max(weights), *weights[:2]]
        other = self._other(question, first)
        self._reader.encode([first, *three, *([other] if "other" in chosen.modes else [])])
        injected = {"inject_top3": three, "other": [other]}
        started_from = dict.fromkeys([first, *(text for mode in chosen.modes for text in injected.get(mode, ()))])
        focused = {text: self._reader.focused(question.question, text) for text in started_from}
        given = _Given(question.question, first, three, weights, other, focused)
        part = focused[first].part
        return {
            "id": question.id,
            "question": question.question,
            "answers": list(question.answers),
            "rank": _rank(question.context, found),
            "bytes": self._reader.stored_bytes(first),
            "offline_sec": self._reader.offline_sec(first),
            "part_hit": None if part is None else any(answer in part.text for answer in question.answers),
            "in_doubt": None if part is None else focused[first].in_doubt,
            "said": {
                mode: _say(self._reader, mode, given, chosen.compose_temperature).to_json() for mode in chosen.modes
            },
        }

    def _other(self, question: Question, right: str) -> str:
        """A wrong paragraph, the same one whatever else is asked."""
        rng = random.Random(f"{self._chosen.seed} {question.id}")
        other = rng.choice(self._texts)
        while other == right and len(self._texts) > 1:
            other = rng.choice(self._texts)
        return other

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """The JSON object of ``precog eval squad``.

        ``bytes``, of encoded states, and ``offline_sec``, for these states and the keys of parts, are of a paragraph,
        its parts counted, on average over the questions; ``part_hit`` is the share of questions whose chosen part
        holds an answer word for word, ``in_doubt_share`` of those where others were as near; of paragraphs that have
        parts, None where none has.
        """
        return _report(self._questions, records, self._reader, self._chosen)


def _rank(gold: str, found: Sequence[str]) -> int | None:
    if not found:
        return None
    return found.index(gold) if gold in found else len(found)


def _say(reader: ParagraphReader, mode: str, given: _Given, temperature: float) -> Said:
    match mode:
        case "in_context":
            return reader.in_context(given.question, given.paragraph)
        case "in_context_once":
            return reader.in_context_once(given.question, given.paragraph)
        case "in_context_part":
            return reader.in_context_part(given.question, given.paragraph, given.focused[given.paragraph])
        case "inject_part":
            return reader.inject_part(given.question, given.paragraph, given.focused[given.paragraph])
        case "inject_top1":
            found = [given.focused[given.paragraph]]
            return reader.inject(given.question, [given.paragraph], [1.0], 1.0, found=found)
        case "inject_top3":
            found = [given.focused[text] for text in given.three]
            return reader.inject(given.question, given.three, given.scores, temperature, found=found)
        case "none":
            return reader.none(given.question)
        case "mask_only":
            return reader.mask_only(given.question, given.paragraph)
        case _:
            return reader.inject_other(given.question, given.paragraph, given.focused[given.other])


def _report(
    questions: Sequence[Question], records: Sequence[Record], reader: ParagraphReader, chosen: SquadSettings
) -> dict[str, object]:
    said = [cast(dict[str, dict[str, Any]], record["said"]) for record in records]
    answers: dict[str, list[Scored]] = {
        mode: [
            {
                **row[mode],
                "em": exact_match(row[mode]["text"], asked.answers),
                "f1": f1(row[mode]["text"], asked.answers),
            }
            for row, asked in zip(said, questions, strict=True)
        ]
        for mode in chosen.modes
    }
    paired = [(answer_by_rule(q.question, q.context), q) for q in questions]
    hits = [record["part_hit"] for record in records if record["part_hit"] is not None]
    doubts = [record["in_doubt"] for record in records if record["in_doubt"] is not None]
    ranks = [cast(int, record["rank"]) for record in records if record["rank"] is not None]
    report: dict[str, object] = {
        "modes": {mode: table_row(answers[mode]) for mode in chosen.modes},
        "n": len(records),
        "ids_sha256": ids_sha256(questions),
        "context": chosen.context,
        "recall": {str(k): float(np.mean([rank < k for rank in ranks])) for k in (1, 3, 10)} if ranks else None,
        "agreement": {
            mode: float(np.mean([row[mode]["text"] == row["in_context"]["text"] for row in said]))
            for mode in chosen.modes
            if mode.startswith("inject") and "in_context" in chosen.modes
        },
        "baseline": {
            "em": float(np.mean([exact_match(said, q.answers) for said, q in paired])),
            "f1": float(np.mean([f1(said, q.answers) for said, q in paired])),
        },
        "bytes": float(np.mean([cast(int, record["bytes"]) for record in records])),
        "offline_sec": float(np.mean([cast(float, record["offline_sec"]) for record in records])),
        "part_hit": float(np.mean([bool(hit) for hit in hits])) if hits else None,
        "in_doubt_share": float(np.mean([bool(doubt) for doubt in doubts])) if doubts else None,
        **about(reader.backbone, reader.codec, reader.settings),
        **reader.states.about(),
        "seed": chosen.seed,
    }
    if "inject_top1" in chosen.modes:
        report["f1_gain_over"] = {
            mode: f1_gain(answers["inject_top1"], answers[mode]) for mode in chosen.modes if mode != "inject_top1"
        }
    return report
