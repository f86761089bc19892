"""One question of HotpotQA, answered from its best k paragraphs by every rule of composition."""

from collections.abc import Sequence
from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.engine.composed import Composed, Composing, answer_composed, rules_of
from precog.engine.confidence import Confidence
from precog.engine.grounded import GroundedSettings
from precog.engine.mask import Source
from precog.engine.modes import FreeSettings
from precog.engine.templates import question_segment
from precog.errors import UsageError
from precog.evaluate.composer import BEST, READ, Member, Way
from precog.evaluate.reader import Said
from precog.refine.quality import QualityStates
from precog.state import Codec

__all__ = ["DEFAULT_RULES", "Rule", "answer_by", "default_rules", "members_of", "parse_rule"]

DEFAULT_RULES = ("mean", "mean@0.1", "concat:2/3", "permute:2/3", "mix@0.1", "replay:2/3/5")


@dataclass(frozen=True)
class Rule:
    """A rule of composition, and how many members it is measured with.

    Attributes:
        name: ``rule``, then ``@T`` for a temperature and ``+layer`` for renormed layers, as of `Way`.
        how: its settings.
        top_k: numbers of members; every one that is measured when empty.
    """

    name: str
    how: Composing
    top_k: tuple[int, ...] = ()

    def runs_at(self, k: int) -> bool:
        """Whether it is measured with so many members."""
        return not self.top_k or k in self.top_k


def parse_rule(text: str) -> Rule:
    """A rule by name; ``:K/K…`` behind it says with how many members it is measured, as in ``mix@0.1:2/3``.

    Raises:
        UsageError: there is no such rule, or a setting is out of range.
    """
    name, colon, counts = text.strip().partition(":")
    parts = counts.split("/") if colon else []
    if not all(part.isascii() and part.isdecimal() and 1 < int(part) < 10**6 for part in parts):
        raise UsageError("--rules: a rule runs with 2 or more members", given=text, expected="such as mix@0.1:2/3")
    way = Way.parse(name)
    if way.how is None:
        hint = f"{BEST} is measured anyway, and replay reads the texts" if name in (BEST, READ) else None
        raise UsageError("--rules: this composes nothing", given=name, hint=hint)
    return Rule(way.name, way.how, tuple(map(int, parts)))


def default_rules(backbone: Backbone) -> tuple[str, ...]:
    """The rules of `DEFAULT_RULES` that a model's states allow."""
    allowed = rules_of(backbone)
    return tuple(name for name in DEFAULT_RULES if parse_rule(name).how.rule in allowed)


def members_of(backbone: Backbone, texts: Sequence[str], codec: Codec, made: QualityStates) -> list[Member]:
    """Paragraphs, read and stored: one at a time, since together the short ones would be padded to the longest."""
    tokens = [backbone.tokenizer.encode_with_offsets(text) for text in texts]
    states = [made.make([text], [ids])[0] for text, (ids, _) in zip(texts, tokens, strict=True)]
    return [
        Member(text, ids, offsets, codec.rounded(state, backbone.spec), refined)
        for text, (ids, offsets), (state, refined) in zip(texts, tokens, states, strict=True)
    ]


def answer_by(
    backbone: Backbone,
    members: Sequence[Member],
    scores: Sequence[float],
    question: str,
    how: Composing,
    decoding: GroundedSettings | FreeSettings,
) -> tuple[Said, bool]:
    """An answer from the states of paragraphs, and whether it is exact: a state that reading leaves, or a mixture.

    Args:
        backbone: the model.
        members: the paragraphs, the best first.
        scores: of retrieval.
        question: that is asked.
        how: the rule; a single member is injected as it is, whatever the rule.
        decoding: grounded in the members' texts, or free.
    """
    made = answer_composed(
        backbone,
        [member.state for member in members],
        scores,
        question_segment(backbone, question),
        how=how,
        chunks=[member.token_ids for member in members],
        sources=[Source.of(member.token_ids) for member in members],
        settings=decoding,
    )
    return _said(backbone, members, made), made.exact and not any(
        member.refined or member.focused for member in members
    )


def _said(backbone: Backbone, members: Sequence[Member], made: Composed) -> Said:
    answer = made.answer
    seconds, first_sec = made.compose_sec + answer.total_sec, made.compose_sec + answer.first_token_sec
    if answer.grounded is None:
        text = backbone.tokenizer.decode(list(answer.token_ids)).strip()
        return Said(text, float("nan"), answer.tokens_processed, seconds, first_sec)
    best = answer.grounded.best
    member = members[best.member]
    spans = member.offsets[best.start : best.start + best.length]
    text = member.text[spans[0][0] : spans[-1][1]].strip()
    confidence = Confidence.of_model(backbone.card).judging(answer, [member.focused for member in members]).of(answer)
    assert confidence is not None
    return Said(text, confidence, answer.tokens_processed, seconds, first_sec)
