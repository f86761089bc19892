"""Bytes better spent: the best answers that a number of bytes per chunk buys (paper: storage claims, K-dial).

Bytes go into bits a real, into layers, or into several states of a chunk: it is cut between sentences into pieces of
about equal length, each is read alone, and a question is answered from all of them by a rule of composition.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.engine.composed import Composing, rules_of
from precog.errors import UsageError
from precog.evaluate.composer import BEST, Member, Way
from precog.evaluate.experiment import Record
from precog.evaluate.hotpot_answers import answer_by
from precog.evaluate.pareto import mark_front
from precog.evaluate.pieces import pieces_of
from precog.evaluate.retrieving import encoder_of, ranked
from precog.evaluate.scores import Scored, decoding_of, f1_gain, table_row
from precog.evaluate.spending import KB, Spending, spendings
from precog.evaluate.squad_data import Question
from precog.evaluate.variants import Noted, Variant, Variants, answers_of
from precog.state import codec_named

__all__ = ["BUDGETS", "CODECS", "RULES", "STATES", "BudgetSettings", "Budgets"]

BUDGETS = (24, 48, 96, 192, 384)
CODECS = ("fp32", "fp16", "int8", "int4-rot")  # int8-rot and int4 take the bytes of the last two
STATES = (1, 2, 4)
RULES = (BEST, "mix@0.1", "mean", "concat")
_ALONE = Composing("mean")  # a single state is injected as it is
_BEST = Way(BEST, _ALONE)


@dataclass(frozen=True)
class BudgetSettings:
    """What is measured.

    Attributes:
        budgets: in KB (1,024 bytes), of all states of a chunk.
        codecs: that states may be stored in.
        states: K, numbers of states that a chunk may have.
        rules: how several states answer: ``best`` (the piece that retrieval ranks first, alone) or a rule as of `Way`;
            those of `RULES` that the model's states allow when empty.
        seed: that the questions were drawn with.
    """

    budgets: tuple[int, ...] = BUDGETS
    codecs: tuple[str, ...] = CODECS
    states: tuple[int, ...] = STATES
    rules: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.codecs:
            codec_named(name)
        for option, numbers in (("--budgets", self.budgets), ("--states", self.states)):
            if any(number < 1 for number in numbers):
                given = ", ".join(map(str, numbers))
                raise UsageError(f"{option} is a list of whole numbers above 0", given=given, expected="such as 1,2,4")
        lists: dict[str, Sequence[object]] = {
            "--budgets": self.budgets,
            "--codec-grid": self.codecs,
            "--states": self.states,
            "--rules": [_way(rule).name for rule in self.rules or RULES],
        }
        for option, listed in lists.items():
            if not listed or len(set(listed)) != len(listed):
                raise UsageError(f"{option} names one twice, or none", given=", ".join(map(str, listed)) or "none")


def _way(rule: str) -> Way:
    way = Way.parse(rule)
    if way.name == BEST:
        return _BEST
    if way.how is None or way.how.rule == "replay":
        raise UsageError("--rules: this reads the text again", given=way.name, expected=f"such as {', '.join(RULES)}")
    return way


def _ways(backbone: Backbone, rules: Sequence[str]) -> list[Way]:
    """Those asked for; the default ones that the model allows when there are none."""
    allowed = [rule for rule in rules_of(backbone) if rule != "replay"]
    ways = [_way(rule) for rule in rules or RULES]
    strange = [way for way in ways if way.name != BEST and way.how is not None and way.how.rule not in allowed]
    if rules and strange:
        given, expected = ", ".join(way.name for way in strange), ", ".join((BEST, *allowed))
        raise UsageError("--rules: this model's states cannot be composed so", given=given, expected=expected)
    return [way for way in ways if way not in strange]


class Budgets(Variants):
    """Answers from as many bytes as budgets allow, on SQuAD, the question's own paragraph given.

    Args:
        questions: that are asked.
        backbone: the model.
        settings: what is measured; FP16 states of whole chunks are in any case, and the others compared with them.
        encoder: of sentences, or where it is, which scores pieces; the default one when None.

    Raises:
        UsageError: a budget is below the smallest configuration, or a rule is none of those that the model's states
            allow.
    """

    name = "bytes"

    def __init__(
        self,
        questions: Sequence[Question],
        backbone: Backbone,
        settings: BudgetSettings | None = None,
        encoder: Encoder | str | None = None,
    ) -> None:
        chosen = settings or BudgetSettings()
        spec = backbone.spec
        self._budgets = sorted(chosen.budgets)
        whole = Spending(codec_named("fp16"), spec.kept_layers("all"))
        codecs = [codec_named(name) for name in chosen.codecs]
        found = spendings([budget * KB for budget in self._budgets], spec, codecs, sorted(chosen.states))
        ways = _ways(backbone, chosen.rules)
        self._rows = {
            spending: [_BEST] if spending.states == 1 else ways for spending in dict.fromkeys((whole, *found))
        }
        self._encoder = encoder_of(encoder)
        variants = [
            self._variant(backbone, spending, way, budgeted=spending in found)
            for spending, own in self._rows.items()
            for way in own
        ]
        choices = {
            **asdict(chosen),
            "budgets": self._budgets,
            "codecs": list(chosen.codecs),
            "states": sorted(chosen.states),
            "rules": [way.name for way in ways],
            "encoder": self._encoder.fingerprint,
            "codec": whole.codec.name,
        }
        super().__init__(questions, backbone, variants, whole.name, choices, decoding_of(backbone))

    def _variant(self, backbone: Backbone, spending: Spending, way: Way, *, budgeted: bool) -> Variant:
        state_bytes = spending.num_bytes(backbone.spec)
        fitting = [budget for budget in self._budgets if budgeted and state_bytes <= budget * KB]
        facts = {
            "codec": spending.codec.name,
            "layers": spending.layers.name,
            "num_layers": len(spending.layers.indices),
            "states": spending.states,
            "rule": way.name if spending.states > 1 else None,
            "state_bytes": state_bytes,
            "encoded_bytes": spending.encoded_bytes(backbone.spec),
            "budget": fitting[0] if fitting else None,
        }
        return Variant(spending.name if spending.states == 1 else f"{spending.name} {way.name}", facts)

    def answers(self, question: Question) -> Iterator[Noted]:
        """From what is kept of the paragraph in every way, by every rule; ``pieces`` is how many states that are."""
        spec = self.backbone.spec
        cut = {count: self._cut(question, count) for count in {spending.states for spending in self._rows}}
        for spending, ways in self._rows.items():
            pieces, scores = cut[spending.states]
            kept = [
                replace(piece, state=spending.codec.rounded(piece.state, spec, spending.layers)) for piece in pieces
            ]
            for way in ways:
                used = 1 if way.name == BEST else len(kept)
                how = way.how or _ALONE
                said, _ = answer_by(self.backbone, kept[:used], scores[:used], question.question, how, self.decoding)
                yield said, {"pieces": len(kept)}

    def _cut(self, question: Question, count: int) -> tuple[list[Member], list[float]]:
        """The pieces of the paragraph, their exact states and scores, the best first."""
        texts = pieces_of(question.context, count)
        order = ranked(question.question, texts, self._encoder) if len(texts) > 1 else [(0, 1.0)]
        tokenizer = self.backbone.tokenizer
        pieces = [
            Member(texts[place], *tokenizer.encode_with_offsets(texts[place]), self.states.exact(texts[place]))
            for place, _ in order
        ]
        return pieces, [score for _, score in order]

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """Sum up.

        Returns:
            As for all variants; a row has ``mean_states``, since a paragraph of fewer sentences has fewer pieces, and
            ``on_front`` as of `Pareto`. ``budgets`` is KB ▸ ``fitting`` (rows that fit), ``best`` (the row of the best
            F1 among them, of equals the one of the fewest bytes) and ``chosen_elsewhere``: the scores where the best
            row is chosen on one half of the questions and scored on the other, both ways round, since the best of
            many is flattered by the questions it was chosen on; None for a single question.
        """
        report = super().report(records)
        rows = cast(dict[str, dict[str, Any]], report["rows"])
        mark_front(rows)
        of = {name: answers_of(records, name) for name in rows}
        for name, row in rows.items():
            row["mean_states"] = float(np.mean([answer["pieces"] for answer in of[name]]))
        budgets = {}
        for budget in self._budgets:
            fitting = [name for name, row in rows.items() if row["budget"] is not None and row["budget"] <= budget]
            fitting.sort(key=lambda name: rows[name]["state_bytes"])
            budgets[str(budget)] = {
                "fitting": fitting,
                "best": _best({name: of[name] for name in fitting}),
                "chosen_elsewhere": _chosen_elsewhere({name: of[name] for name in fitting}, of[self.against]),
            }
        return {**report, "budgets": budgets}


def _best(of: Mapping[str, Sequence[Scored]]) -> str:
    return max(of, key=lambda name: float(np.mean([answer["f1"] for answer in of[name]])))


def _chosen_elsewhere(of: Mapping[str, Sequence[Scored]], against: Sequence[Scored]) -> dict[str, object] | None:
    if len(against) < 2:
        return None
    best = [_best({name: answers[half::2] for name, answers in of.items()}) for half in (0, 1)]
    answers = [of[best[1 - number % 2]][number] for number in range(len(against))]
    return {**table_row(answers), "f1_gain": f1_gain(answers, against), "rows": list(dict.fromkeys(best))}
