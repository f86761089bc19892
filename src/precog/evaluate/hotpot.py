"""HotpotQA in the distractor setting: the best k of ten paragraphs, composed by every rule (paper Table 7).

Retrieval is scored by two recalls (ERRATA 17): questions with *any*, and with *all* of their supporting paragraphs
among the best k. Scores are told with and without the questions that are answered yes or no: a grounded answer is a
span, and cannot say either. Whether the paragraphs are the official ones stands beside every score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.engine.composed import Composing, rules_of
from precog.errors import UsageError
from precog.evaluate.composer import BEST, Member
from precog.evaluate.experiment import Record
from precog.evaluate.hotpot_answers import Rule, answer_by, default_rules, members_of, parse_rule
from precog.evaluate.hotpot_data import HotpotQuestion
from precog.evaluate.parts import Focused, about_parts, parts_for
from precog.evaluate.retrieving import encoder_of, ranked
from precog.evaluate.scores import Decoding, Scored, about, decoding_of, f1_gain, scored, table_row
from precog.evaluate.subset import ids_sha256
from precog.refine.choice import FAST
from precog.refine.quality import QualityStates
from precog.refine.study import StudySettings
from precog.refine.tally import StudyTally
from precog.state import codec_named

__all__ = ["TOP_K", "Hotpot", "HotpotSettings"]

TOP_K = (1, 2, 3, 5, 10)
_BEST_ALONE = Rule(BEST, Composing("mix", 1.0))  # what one paragraph is answered by, as `precog ask` does


@dataclass(frozen=True)
class HotpotSettings:
    """What is measured.

    Attributes:
        top_k: numbers of paragraphs, rising; with 1, the best alone, all rules are the same, and it is measured anyway.
        rules: as of `parse_rule`; the default ones that the model's states allow when empty.
        free: answer freely, too.
        codec: how states are stored.
        seed: that the questions were drawn with.
    """

    top_k: tuple[int, ...] = TOP_K
    rules: tuple[str, ...] = ()
    free: bool = False
    codec: str = "fp16"
    seed: int = 0

    def __post_init__(self) -> None:
        codec_named(self.codec)
        if not self.top_k or min(self.top_k) < 1 or list(self.top_k) != sorted(set(self.top_k)):
            given = ",".join(map(str, self.top_k)) or "none"
            raise UsageError("--top-k are rising numbers of paragraphs", given=given, expected="such as 1,2,3,5,10")
        names = [parse_rule(rule).name for rule in self.rules]
        if len(set(names)) != len(names):
            raise UsageError("--rules names a rule twice", given=", ".join(names))


class Hotpot:
    """An experiment whose items are questions, each answered from its best k paragraphs by every rule.

    Args:
        questions: that are asked.
        backbone: the model.
        settings: what is measured.
        encoder: of sentences, or where it is; the default one when None.
        study: how states are studied; None where they are only read.
        quality: of the states; those of ``study`` are focused, each on the nearest part of its own paragraph; ``mix``
            has a second state of it where that part is in doubt.

    Raises:
        UsageError: a rule is none of those that the model's states allow, or they cannot be averaged to be focused.
    """

    name = "hotpot"
    settings: Mapping[str, object]

    def __init__(
        self,
        questions: Sequence[HotpotQuestion],
        backbone: Backbone,
        settings: HotpotSettings | None = None,
        encoder: Encoder | str | None = None,
        study: StudySettings | None = None,
        quality: str = FAST,
    ) -> None:
        chosen = settings or HotpotSettings()
        self.questions = questions
        self.backbone = backbone
        self.top_k = tuple(dict.fromkeys((1, *chosen.top_k)))
        self.rules = tuple(map(parse_rule, chosen.rules or default_rules(backbone)))
        allowed = rules_of(backbone)
        strange = [rule.name for rule in self.rules if rule.how.rule not in allowed]
        if strange:
            given, expected = ", ".join(strange), ", ".join(allowed)
            raise UsageError("--rules: this model's states cannot be composed so", given=given, expected=expected)
        self._codec = codec_named(chosen.codec)
        self._states = QualityStates(backbone, study)
        self._encoder = encoder_of(encoder)
        self._parts = parts_for(quality, backbone, self._encoder, self._codec, max(self.top_k))
        grounded = decoding_of(backbone)
        self._decodings: dict[str, Decoding] = {"grounded": grounded}
        if chosen.free:
            self._decodings["free"] = decoding_of(backbone, free=True)
        self.settings = {
            **about(backbone, chosen.codec, grounded),
            **self._states.about(),
            **about_parts(self._parts),
            **asdict(chosen),
            "top_k": list(self.top_k),
            "rules": [f"{rule.name}:{'/'.join(map(str, rule.top_k))}".rstrip(":") for rule in self.rules],
            "encoder": self._encoder.fingerprint,
            "ids_sha256": ids_sha256(questions),
        }

    @property
    def tally(self) -> StudyTally:
        """What became of states that were studied."""
        return self._states.tally

    def __len__(self) -> int:
        """Questions."""
        return len(self.questions)

    @property
    def _most_injected(self) -> int:
        """Members whose states a rule starts from; what `replay` alone has reads on, and is not focused."""
        return max(k for k in self.top_k if any(rule.how.rule != "replay" for rule in self._ways(k)))

    def _ways(self, k: int) -> list[Rule]:
        return [_BEST_ALONE] if k == 1 else [rule for rule in self.rules if rule.runs_at(k)]

    def measure(self, number: int) -> Record:
        """One question.

        Returns:
            ``id``, ``setting``, ``yes_no``; ``recall``, k ▸ [any, all], None where the supporting paragraphs are not
            known; ``said``, decoding ▸ k ▸ rule ▸ text, em, f1, tokens_processed, latency_sec, exact.
        """
        question = self.questions[number]
        texts = [paragraph.full_text for paragraph in question.paragraphs]
        order = ranked(question.question, texts, self._encoder)[: max(self.top_k)]
        titles = [question.paragraphs[place].title for place, _ in order]
        members = members_of(self.backbone, [texts[place] for place, _ in order], self._codec, self._states)
        found = [self._focused(question.question, member) for member in members[: self._most_injected]]
        scores = [score for _, score in order]
        said: dict[str, dict[str, dict[str, object]]] = {}
        for name, decoding in self._decodings.items():
            said[name] = {}
            for k in self.top_k:
                said[name][str(k)] = {}
                for rule in self._ways(k):
                    used = [] if rule.how.rule == "replay" else found[:k]  # it reads on
                    given = _started_from(members[:k], used) if used else members[:k]
                    answer, exact = answer_by(self.backbone, given, scores[:k], question.question, rule.how, decoding)
                    answer = answer.after(*used)
                    said[name][str(k)][rule.name] = {**scored(answer, [question.answer]), "exact": exact}
        wanted = question.supporting_titles
        recall = {
            str(k): [any(title in titles[:k] for title in wanted), all(title in titles[:k] for title in wanted)]
            for k in self.top_k
        }
        return {
            "id": question.id,
            "setting": question.setting,
            "yes_no": question.is_yes_no,
            "recall": recall if wanted else None,
            "said": said,
        }

    def _focused(self, question: str, member: Member) -> Focused:
        if self._parts is None:
            return Focused(member.state)
        return self._parts.focused(member.state, question, member.text)

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """Sum up.

        Returns:
            ``tables``, one for each setting that occurs and, where two do, one more for both (``all``), each with its
            ``setting``, ``n``, ``num_yes_no``, ``recall`` (``n``, ``recall_any`` and ``recall_all``, k ▸ share) and
            ``rows``; a row has k, rule, decoding, exact, the scores of all questions with ``f1_gain`` over the best
            paragraph alone (k = 1), and under ``without_yes_no`` the same of the questions that a span can answer.
        """
        settings = list(dict.fromkeys(str(record["setting"]) for record in records))
        tables = {setting: self._table([r for r in records if r["setting"] == setting]) for setting in settings}
        if len(settings) > 1:
            tables["all"] = self._table(records)
        for setting, table in tables.items():
            table["setting"] = setting
        return {"tables": tables, "n": len(records), **self.settings}

    def _table(self, records: Sequence[Record]) -> dict[str, object]:
        spans = [record for record in records if not record["yes_no"]]
        rows = []
        for decoding in self._decodings:
            for k in self.top_k:
                for rule in self._ways(k):
                    all_of_them = _summed(records, decoding, k, rule.name)
                    without = _summed(spans, decoding, k, rule.name) if spans else None
                    exact = all(answer["exact"] for answer in _answers(records, decoding, k, rule.name))
                    facts = {"k": k, "rule": rule.name, "decoding": decoding, "exact": exact}
                    rows.append({**facts, **all_of_them, "without_yes_no": without})
        known = [cast(Mapping[str, list[bool]], record["recall"]) for record in records if record["recall"]]
        recall: dict[str, object] = {"n": len(known)}
        for place, name in enumerate(("recall_any", "recall_all")):
            of = {str(k): [found[str(k)][place] for found in known] for k in self.top_k}
            recall[name] = {k: float(np.mean(found)) for k, found in of.items()} if known else None
        return {"n": len(records), "num_yes_no": len(records) - len(spans), "recall": recall, "rows": rows}


def _started_from(members: Sequence[Member], found: Sequence[Focused]) -> list[Member]:
    """Members with their focused states."""
    return [
        replace(member, state=one.state, focused=one.is_focused) for member, one in zip(members, found, strict=True)
    ]


def _answers(records: Sequence[Record], decoding: str, k: int, rule: str) -> list[Scored]:
    return [cast(Mapping[str, Any], record["said"])[decoding][str(k)][rule] for record in records]


def _summed(records: Sequence[Record], decoding: str, k: int, rule: str) -> dict[str, object]:
    answers = _answers(records, decoding, k, rule)
    best = _answers(records, decoding, 1, BEST)
    return {**table_row(answers), "f1_gain": f1_gain(answers, best)}
