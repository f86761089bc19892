"""Does a restored state go on as if nothing had happened? Asked of every hosted model when it is opened.

Libraries lose states without a word (a Mamba-1 of transformers reads several tokens from an injected state as if there
were no context), so nothing is taken on trust: the judge is the library's own pass over the whole text.
"""

from dataclasses import dataclass

import torch

from precog.backbones.hosted.backbone import HostedBackbone
from precog.backbones.hosted.precision import full_precision
from precog.backbones.hosted.runtime import Runtime
from precog.errors import ModelError

NUM_TOKENS = 32
CUT = 13
# of the largest |logit|, never less than of 1: what the order of sums may change at each precision
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2.0**-6, torch.bfloat16: 2.0**-3}


@dataclass(frozen=True)
class Restored:
    """How far reading on from a state is from one pass.

    Attributes:
        step: max |Δlogit| one token at a time.
        many: max |Δlogit| all tokens at once.
        bound: what both may be at most.
    """

    step: float
    many: float
    bound: float

    @property
    def ok(self) -> bool:
        """Whether neither is beyond the bound; a figure that is no number is."""
        return self.step <= self.bound and self.many <= self.bound


def restored(backbone: HostedBackbone) -> Restored:
    """Inject the state of the first 13 of 32 tokens, read on in both ways, and compare with one pass."""
    with torch.no_grad(), full_precision():
        return _restored(backbone.runtime, backbone)


def _restored(runtime: Runtime, backbone: HostedBackbone) -> Restored:
    ids = torch.randint(runtime.vocab_size, (NUM_TOKENS,), generator=torch.Generator().manual_seed(0))
    judge = runtime.one_pass(ids.to(runtime.device)).float().cpu()
    head, rest = ids[:CUT], ids[CUT:]
    empty = runtime.empty()[:, None].to(runtime.device)
    _, rows = runtime.forward(head[None].to(runtime.device), empty, (0,), every=False)
    if not torch.isfinite(rows).all():
        raise ModelError(f"states of {backbone.card.name} are not finite", hint="its weights may be damaged")
    kept = rows.clone()
    many, _ = runtime.forward(rest[None].to(runtime.device), rows, (CUT,), every=True)
    if not torch.equal(rows, kept):
        raise ModelError(f"{backbone.card.name} changes the states it is given")
    parts = []
    for done, token in enumerate(rest.tolist()):
        scores, rows = runtime.forward(torch.tensor([[token]], device=runtime.device), rows, (CUT + done,), every=False)
        parts.append(scores[0])
    step = torch.cat(parts)
    bound = TOLERANCE[runtime.dtype] * max(1.0, float(judge.abs().max()))
    return Restored(_furthest(step, judge[CUT:]), _furthest(many[0], judge[CUT:]), bound)


def _furthest(scores: torch.Tensor, judge: torch.Tensor) -> float:
    error = float((scores.float().cpu() - judge).abs().max())
    return error if error == error else float("inf")


def check_restored(backbone: HostedBackbone) -> HostedBackbone:
    """The backbone, if its states can be trusted.

    Raises:
        ModelError: reading on from a state differs from one pass by more than rounding; with both figures.
    """
    found = restored(backbone)
    if not found.ok:
        raise ModelError(
            f"states of {backbone.card.name} cannot be trusted: reading on from one differs from reading in one pass",
            given=f"max |Δlogit| {found.step:.2g} one token at a time, {found.many:.2g} many at once",
            expected=f"at most {found.bound:.2g}",
            hint="its library is at fault, or this version of it; nothing was stored or answered",
        )
    return backbone
