"""Composition of probabilities instead of states: every member answers, and their distributions are mixed.

p(y_t) = Σ_j w_j p(y_t | h_j, q, y_<t), and after each token w_j ← w_j · p(y_t | h_j, …), renormalised: members that
foresaw the answer so far count more for the rest of it. That is exactly p(answer) = Σ_j w_j p(answer | h_j), so the
rule is exact for the mixture, though no single state stands for it. The members are rows of one batch; where answers
are grounded, each has the mask of its own source.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.engine.decode import DecodedToken, sentence_ended
from precog.engine.grounded import Grounded, GroundedSettings, Scores, Span, entropy
from precog.engine.mask import Mask, Place, Source
from precog.engine.sampling import Sampling, choose
from precog.errors import InputError, StateError, UsageError
from precog.interrupt import check_asked
from precog.state import State, StateBatch


def decode_mixture(
    backbone: Backbone,
    states: Sequence[State],
    weights: Sequence[float],
    question_ids: Sequence[int],
    *,
    max_tokens: int = 64,
    sampling: Sampling | None = None,
    whole_sentences: bool = True,
) -> Iterator[DecodedToken]:
    """Stream an answer of several members; as `precog.engine.decode.decode` for one.

    Args:
        backbone: the model.
        states: what each member has read. They are not changed.
        weights: of the members, before any evidence; they sum to 1.
        question_ids: the question's segment, boundary first.
        max_tokens: the answer is cut off after so many.
        sampling: greedy when None.
        whole_sentences: stop where the first sentence ends.

    Raises:
        UsageError: ``max_tokens`` is out of range.
        StateError: no member, or weights that are none.
        BoundaryError, ForeignStateError, InputError: as `Backbone.read`.
        CancelledError: whoever asked has gone.
    """
    if max_tokens < 1:
        raise UsageError("--max-tokens is out of range", given=max_tokens, expected="at least 1")
    sampling = sampling or Sampling()
    generator = None if sampling.is_greedy else sampling.generator()
    evidence = _log_weights(states, weights)
    batch, hidden = _read_question(backbone, states, question_ids)
    processed = len(states) * len(question_ids)
    ends = [backbone.tokenizer.eos_id, backbone.tokenizer.boundary_id]
    answer: list[int] = []
    while True:
        check_asked()
        logits = backbone.logits(hidden)
        if not answer:  # an end before any word would be no answer at all
            logits[:, ends] = -torch.inf
        each = torch.log_softmax(logits.double(), dim=1)
        mixed = torch.logsumexp(evidence[:, None] + each, dim=0) - torch.logsumexp(evidence, dim=0)
        token_id = choose(mixed.to(logits.dtype), sampling, generator)
        if token_id in ends or (whole_sentences and sentence_ended(answer, token_id, backbone.tokenizer)):
            return
        answer.append(token_id)
        yield DecodedToken(token_id, float(mixed[token_id]), processed)
        if len(answer) == max_tokens:
            return
        evidence = evidence + each[:, token_id]
        batch, hidden = backbone.step(batch, [token_id] * len(states))
        processed += len(states)


@dataclass(frozen=True, eq=False)
class _Branch:
    """An answer so far.

    Attributes:
        tokens: it.
        stands: for each member, where its mask lets the tokens stand; nowhere once the member is out.
        rows: for each member its row of the batch; that of the bare question last, where there is a contrast.
        evidence: log w_j p(tokens | h_j) under the member's mask, [n].
        bare: the same from the question alone.
    """

    tokens: tuple[int, ...]
    stands: tuple[tuple[Place, ...], ...]
    rows: tuple[int, ...]
    evidence: Float64[Tensor, " n"]
    bare: Float64[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class _Choice:
    score: float
    branch: int
    token: int
    evidence: Float64[Tensor, " n"]
    bare: Float64[Tensor, " n"]

    @property
    def log_probability(self) -> float:
        return float(torch.logsumexp(self.evidence, 0))


def ground_mixture(
    backbone: Backbone,
    states: Sequence[State],
    weights: Sequence[float],
    question_ids: Sequence[int],
    sources: Sequence[Source],
    *,
    owners: Sequence[int | None] | None = None,
    settings: GroundedSettings | None = None,
) -> Grounded:
    """Answer with a span of a source, each member under the mask of its own; as `precog.engine.ground` for one.

    A branch of the beam is an answer so far, with every member's evidence for it: members whose source does not hold
    it are out, at once and without a row. The end of an answer, and that there is none, are mixed alike.

    Args:
        backbone: the model.
        states: what each member has read. They are not changed.
        weights: of the members, before any evidence; they sum to 1.
        question_ids: the question's segment, boundary first.
        sources: where spans may come from.
        owners: for each member the index of its source, or None for all of them (a semantic state has none of its
            own); member j owns source j when left out.
        settings: of the search.

    Raises:
        InputError: no source or no question.
        StateError: no member, weights that are none, or a source that does not exist.
        BoundaryError, ForeignStateError: as `Backbone.read`.
    """
    started = time.perf_counter()
    settings = settings or GroundedSettings()
    if not sources:
        raise InputError("grounded decoding needs a source", hint="decode freely (--free) without one")
    initial = _log_weights(states, weights)
    owned = list(range(len(states))) if owners is None else list(owners)
    if len(owned) != len(states) or not all(owner is None or 0 <= owner < len(sources) for owner in owned):
        given = f"{len(states)} states, {len(sources)} sources, owners {owned}"
        raise StateError("every member of a mixture needs a source", given=given)
    contrast = settings.contrast
    batch, hidden = _read_question(backbone, [*states, *([backbone.empty_state()] if contrast else [])], question_ids)
    processed = len(batch) * len(question_ids)
    mask = Mask(sources, backbone.tokenizer, whole_words=settings.whole_words)
    begin = mask.beginnings()
    stands = tuple(begin if owner is None else begin[owner : owner + 1] for owner in owned)
    branches = [_Branch((), stands, tuple(range(len(batch))), initial, initial)]
    each = torch.log_softmax(backbone.logits(hidden[: len(states)]).double(), 1)
    free_entropy = entropy(torch.logsumexp(initial[:, None] + each, 0))
    finished: list[Span] = []
    foreseen: dict[tuple[int, ...], Tensor] = {}
    ended, first_token_sec = initial, 0.0
    for depth in range(settings.max_span_tokens + 1):
        check_asked()
        final = depth == settings.max_span_tokens
        choices, places = _expand(backbone, hidden, branches, mask, settings, final=final)
        if depth == 0:
            ended = next(choice.evidence for choice in choices if choice.token == mask.end)
            first_token_sec = time.perf_counter() - started
        choices = [c for c in choices if (c.token == mask.end or not final) and (c.token != mask.end or depth > 0)]
        choices = sorted(choices, key=lambda c: (-c.score, c.branch, c.token))[: settings.beam_width]
        ending = [c for c in choices if c.token == mask.end]
        finished += [_span(mask, branches[c.branch], c) for c in ending]
        foreseen |= {branches[c.branch].tokens: c.evidence for c in ending}
        best = max((span.score for span in finished), default=-float("inf"))
        falls = not contrast and not settings.length_normalise  # then an unfinished branch only gets worse
        going = [c for c in choices if c.token != mask.end and not (falls and c.score <= best)]
        if not going or (not falls and len(finished) >= settings.beam_width):
            break
        rows: list[int] = []
        tokens: list[int] = []
        grown: list[_Branch] = []
        for choice in going:
            parent, now = branches[choice.branch], places[choice.branch]
            still = tuple(now[j].get(choice.token, ()) for j in range(len(states)))
            alive = [j for j, where in enumerate(still) if where]
            kept = [parent.rows[j] for j in alive] + ([parent.rows[-1]] if contrast else [])
            numbers = dict(zip(alive, range(len(rows), len(rows) + len(alive)), strict=True))
            places_of_rows = [numbers.get(j, -1) for j in range(len(states))]
            rows += kept
            tokens += [choice.token] * len(kept)
            if contrast:
                places_of_rows.append(len(rows) - 1)
            span = (*parent.tokens, choice.token)
            grown.append(_Branch(span, still, tuple(places_of_rows), choice.evidence, choice.bare))
        branches = grown
        batch, hidden = backbone.step(batch.select(rows), tokens)
        processed += len(rows)
    spans = tuple(sorted(finished, key=lambda span: -span.score))
    return Grounded(
        spans=spans,
        no_answer_log_probability=float(torch.logsumexp(ended, 0)),
        free_entropy=free_entropy,
        tokens_processed=processed,
        mask_bytes=mask.num_bytes,
        mask_sec=mask.seconds,
        first_token_sec=first_token_sec,
        total_sec=time.perf_counter() - started,
        of_source=_of_source(owned, initial, foreseen[spans[0].token_ids], ended, each),
    )


def _of_source(
    owned: Sequence[int | None],
    initial: Float64[Tensor, " n"],
    answer: Float64[Tensor, " n"],
    ended: Float64[Tensor, " n"],
    each: Float64[Tensor, "n V"],
) -> Scores | None:
    """The scores of the source that foresaw the answer most, from its members alone.

    A passage that does not hold the answer says so, and of the mixture's own p(no answer) that would soon be all,
    however little the passage weighs: it speaks against itself, not against the passage that holds it.
    """
    sources = {owner for owner in owned if owner is not None}
    if len(sources) < 2:
        return None

    def members(source: int) -> list[int]:
        return [j for j, owner in enumerate(owned) if owner == source]

    best = max(sorted(sources), key=lambda source: float(torch.logsumexp(answer[members(source)], 0)))
    own = [j for j, owner in enumerate(owned) if owner in (best, None)]
    weight = torch.logsumexp(initial[own], 0)
    return Scores(
        log_probability=float(torch.logsumexp(answer[own], 0) - weight),
        no_answer_log_probability=float(torch.logsumexp(ended[own], 0) - weight),
        free_entropy=entropy(torch.logsumexp((initial[own] - weight)[:, None] + each[own], 0)),
        source=best,
    )


Continuations = list[dict[int, tuple[Place, ...]]]  # for each member, where its longer spans stand


def _expand(
    backbone: Backbone,
    hidden: Tensor,
    branches: Sequence[_Branch],
    mask: Mask,
    settings: GroundedSettings,
    *,
    final: bool,
) -> tuple[list[_Choice], list[Continuations]]:
    """Every next token that some member allows, of every branch, with all members' evidence for it."""
    allowed = [
        [mask.expand(branch.tokens, stands, may_end=final) if stands else None for stands in branch.stands]
        for branch in branches
    ]
    union = sorted({int(i) for members in allowed for member in members if member is not None for i in member[0]})
    column = {token: number for number, token in enumerate(union)}
    scores = backbone.scores(hidden, torch.tensor(union)).double()
    choices: list[_Choice] = []
    for number, (branch, members) in enumerate(zip(branches, allowed, strict=True)):
        gained = torch.full((len(members), len(union)), -torch.inf, dtype=torch.float64)
        bare = gained.clone()
        for j, member in enumerate(members):
            if member is None:
                continue
            columns = torch.tensor([column[token] for token in member[0].tolist()])
            gained[j, columns] = torch.log_softmax(scores[branch.rows[j], columns], 0)
            if settings.contrast:
                bare[j, columns] = torch.log_softmax(scores[branch.rows[-1], columns], 0)
        evidence, from_question = branch.evidence[:, None] + gained, branch.bare[:, None] + bare
        total = torch.logsumexp(evidence, 0)
        ranked = total - settings.contrast * torch.logsumexp(from_question, 0) if settings.contrast else total
        if settings.length_normalise:
            ranked = ranked / (len(branch.tokens) + 1)
        choices += [
            _Choice(float(ranked[c]), number, union[c], evidence[:, c], from_question[:, c])
            for c in torch.isfinite(total).nonzero()[:, 0].tolist()
        ]
    return choices, [[{} if member is None else member[1] for member in members] for members in allowed]


def _span(mask: Mask, branch: _Branch, choice: _Choice) -> Span:
    """A finished branch as a candidate answer, at the places where members that let it end there have it."""
    stands = [place for stand in branch.stands for place in stand]
    occurrences = sorted(set(mask.occurrences(branch.tokens, stands)))
    return Span(branch.tokens, *occurrences[0], tuple(occurrences), choice.log_probability, choice.score)


def _log_weights(states: Sequence[State], weights: Sequence[float]) -> Float64[Tensor, " n"]:
    values = torch.tensor(list(weights), dtype=torch.float64)
    if (
        not states
        or len(states) != len(weights)
        or not bool((values >= 0).all())
        or abs(float(values.sum()) - 1) > 1e-6
    ):
        given = f"{len(states)} states, weights {list(weights)}"
        raise StateError("a mixture needs a weight for every member", given=given, expected="weights that sum to 1")
    return values.log()


def _read_question(
    backbone: Backbone, states: Sequence[State], question_ids: Sequence[int]
) -> tuple[StateBatch, Float[Tensor, "B d"]]:
    tokens = torch.tensor([list(question_ids)] * len(states), dtype=torch.int64)
    return backbone.read(backbone.open(states), tokens)
