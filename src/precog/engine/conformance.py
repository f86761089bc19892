"""Does injecting equal reading? The computation behind ``precog verify`` (Theorem 1, ERRATA 3 and 19).

The judge is one pass over chunk and question; every logit after a question token is compared with what the stored
state gives, for every length of the question, and every live state at a cut is compared with what that pass says next.

FP32 is held to `FP32_BOUND` on logits, and every decoded state to its codec's bound, element by element. What FP16's
rounding grows to while the question is read (`CONTINUATION_BOUND`) is measured and not judged: it depends on the
model's depth and weights, not on the codec.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.errors import InputError
from precog.state import LayerSubset, State, StateSpec, codec_named

FP32_BOUND = 1e-4  # max |Δlogit| that counts as exact at FP32
CONTINUATION_BOUND = 2.0**-10  # expected per layer, relative in the inf-norm, 40 tokens after an FP16 state
ROUNDING = 1e-5  # of a layer's largest real: what the order of FP32 sums may change, with the batch read together
NUM_CUTS = 24
CUT_TOKENS = 8  # tokens compared after a live cut: twice the convolution's reach


@dataclass(frozen=True)
class Comparison:
    """Two ways to the same logits.

    Attributes:
        max_abs_logit_error: largest |Δlogit| over all tokens and positions.
        max_relative_state_error: largest per-layer ‖Δh‖∞ / ‖h‖∞ after the question.
        max_codec_error: largest error of a decoded state in units of its codec's bound; at most 1.
        positions: positions compared.
        agreeing: positions at which the most probable token is the same.
    """

    max_abs_logit_error: float = 0.0
    max_relative_state_error: float = 0.0
    max_codec_error: float = 0.0
    positions: int = 0
    agreeing: int = 0

    def joined(self, other: "Comparison") -> "Comparison":
        """Both together."""
        return Comparison(
            max(self.max_abs_logit_error, other.max_abs_logit_error),
            max(self.max_relative_state_error, other.max_relative_state_error),
            max(self.max_codec_error, other.max_codec_error),
            self.positions + other.positions,
            self.agreeing + other.agreeing,
        )

    @property
    def argmax_agreement(self) -> float:
        """Share of positions at which the most probable token is the same."""
        return self.agreeing / self.positions if self.positions else 1.0


@dataclass(frozen=True)
class Conformance:
    """What verifying found.

    Attributes:
        exact: states kept at FP32, cut at boundaries, every question length.
        live: live states at other cuts.
        coded: by codec name, states that went through that codec.
        cuts: cuts compared.
        violations: one line for each bound that was broken.
    """

    exact: Comparison = Comparison()
    live: Comparison = Comparison()
    coded: dict[str, Comparison] = dataclasses.field(default_factory=dict)
    cuts: int = 0
    violations: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no bound was broken."""
        return not self.violations

    def joined(self, other: "Conformance") -> "Conformance":
        """Both together: chunk by chunk a corpus is verified."""
        names = {**self.coded, **other.coded}
        return Conformance(
            self.exact.joined(other.exact),
            self.live.joined(other.live),
            {n: self.coded.get(n, Comparison()).joined(other.coded.get(n, Comparison())) for n in names},
            self.cuts + other.cuts,
            self.violations + other.violations,
        )


def verify_chunk(
    backbone: Backbone,
    chunk_ids: Sequence[int],
    question_ids: Sequence[int],
    *,
    stored: State | None = None,
    stored_codec: str = "fp16",
    layers: LayerSubset | None = None,
    codecs: Sequence[str] = ("fp32", "fp16"),
    live_cuts: bool = True,
    every_length: bool = True,
    label: str = "chunk",
) -> Conformance:
    """Compare injection with one pass over chunk and question.

    Args:
        backbone: the model, at FP32 (or FP64) to be held to the bounds.
        chunk_ids: ids of the chunk, without boundary.
        question_ids: a question's segment; its prefixes of 1, 2, 3 … tokens are all compared, so pass the longest.
        stored: a state from disk, compared like the ones made here, under the name ``stored``.
        stored_codec: name of the codec it was kept in.
        layers: the subset it was kept with; with layers missing its logits are measured, not judged.
        codecs: those to send a fresh state through.
        live_cuts: also cut inside segments (twice the work).
        every_length: inject anew for every length of the question; otherwise once, for the whole question.
        label: how violations name the chunk.

    Raises:
        InputError: chunk or question is empty.
    """
    if not question_ids:
        raise InputError("verifying needs a question", given="0 tokens")
    context = backbone.reading(chunk_ids)
    judge_state, judge = backbone.prefill_logits([*context, *question_ids])
    after = judge[len(context) :]
    [fresh] = backbone.encode_chunks([chunk_ids])

    def inject(state: State) -> Comparison:
        return _from_boundary(backbone, state, question_ids, after, judge_state, every_length)

    exact = inject(fresh)
    violations = _judge(f"{label}: injection", exact, "fp32", backbone)
    coded: dict[str, Comparison] = {}
    for name in codecs:
        back = codec_named(name).rounded(fresh, backbone.spec)
        coded[name] = dataclasses.replace(inject(back), max_codec_error=_codec_error(back, fresh, name, backbone.spec))
        violations += _judge(f"{label}: {name} codec", coded[name], name, backbone)
    if stored is not None:
        error = _codec_error(stored, fresh, stored_codec, backbone.spec, layers)
        coded["stored"] = dataclasses.replace(inject(stored), max_codec_error=error)
        whole = layers is None or layers.is_all
        violations += _judge(f"{label}: stored state", coded["stored"], stored_codec if whole else "part", backbone)
    live, cuts = Comparison(), 1
    if live_cuts:
        live, num_live = _from_live_cuts(backbone, [*context, *question_ids], judge)
        cuts += num_live
        violations += _judge(f"{label}: live states", live, "fp32", backbone)
    return Conformance(exact, live, coded, cuts, tuple(violations))


def _from_boundary(
    backbone: Backbone,
    state: State,
    question_ids: Sequence[int],
    after: Tensor,
    judge_state: State,
    every_length: bool,
) -> Comparison:
    """Inject and read the question, and each of its prefixes from the stored state anew."""
    end, logits = backbone.prefill_logits(question_ids, state)
    result = _compare(logits, after)
    for length in range(1, len(question_ids)) if every_length else ():
        _, last = backbone.prefill(question_ids[:length], state)
        result = result.joined(_compare(last[None], after[length - 1 : length]))
    error = (end.recurrent - judge_state.recurrent).abs().amax(1)
    size = judge_state.recurrent.abs().amax(1)
    relative = torch.where(size > 0, error / size.clamp_min(torch.finfo(size.dtype).tiny), error)
    return dataclasses.replace(result, max_relative_state_error=_finite(float(relative.max())))


def _from_live_cuts(backbone: Backbone, ids: list[int], judge: Tensor) -> tuple[Comparison, int]:
    """Cut a reading inside its segments, keep the live state, read on, and compare the next few logits."""
    interior = [cut for cut in range(1, len(ids)) if ids[cut] not in backbone.opening]
    near = interior[:4] + interior[-4:]
    spread = interior[:: max(1, len(interior) // NUM_CUTS)]
    result = Comparison()
    cuts = sorted({*near, *spread})
    state: State | None = None
    done = 0
    for cut in cuts:
        state, logits = backbone.prefill(ids[done:cut], state)
        result = result.joined(_compare(logits[None], judge[cut - 1 : cut]))
        stop = min(len(ids), cut + CUT_TOKENS)
        _, onward = backbone.prefill_logits(ids[cut:stop], state)
        result = result.joined(_compare(onward, judge[cut:stop]))
        done = cut
    return result, len(cuts)


def _codec_error(decoded: State, fresh: State, codec: str, spec: StateSpec, layers: LayerSubset | None = None) -> float:
    """The largest error of a decoded state, in units of what codec and rounding may cause."""
    reals = fresh.recurrent
    allowed = reals.abs().amax(1, keepdim=True) * ROUNDING + torch.finfo(reals.dtype).tiny
    allowed = allowed + codec_named(codec).bound(fresh, spec)
    error = (decoded.recurrent - reals).abs() / allowed
    if layers is not None:
        error = error[list(layers.indices)]
    return _finite(float(error.max())) if error.numel() else 0.0


def _compare(actual: Tensor, expected: Tensor) -> Comparison:
    error = _finite(float((actual - expected).abs().max()))
    agreeing = int((actual.argmax(-1) == expected.argmax(-1)).sum())
    return Comparison(max_abs_logit_error=error, positions=expected.shape[0], agreeing=agreeing)


def _finite(error: float) -> float:
    """The error, or infinity for what is no number: a maximum must not lose it."""
    return error if error == error else float("inf")


def _judge(what: str, found: Comparison, codec: str, backbone: Backbone) -> list[str]:
    """Violations of what the codec promises; other compute dtypes are measured, not judged."""
    if backbone.encoding_dtype not in ("float32", "float64"):
        return []
    violations = []
    if codec == "fp32" and found.max_abs_logit_error > FP32_BOUND:
        violations.append(f"{what}: max |Δlogit| {found.max_abs_logit_error:.2e} is above {FP32_BOUND:g}")
    if found.max_codec_error > 1:
        violations.append(f"{what}: the state is off by {found.max_codec_error:.3g} times the bound of its codec")
    return violations
