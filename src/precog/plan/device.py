"""An edge device as its data sheet describes it: tokens a second, watts, flash; and the paper's, and five platforms.

Nothing is run: what such a device would do is told in virtual time by `precog.plan.timeline`.
"""

import math
from dataclasses import asdict, dataclass, fields

from precog.errors import UsageError
from precog.plan.latency import load_sec, prefill_sec, state_tok_per_sec, weight_bytes
from precog.plan.paper import PAPER, Paper, Platform
from precog.plan.storage import state_bytes

LEAST, MOST = 1e-6, 1e15  # of anything a second, and of watts; beyond them a number is a slip, and sums overflow
LONGEST_SEC = 3600.0
MOST_WATTS = 1e6

_OPTIONS = {
    "prefill_tok_per_sec": "--prefill-tok-per-s",
    "decode_tok_per_sec": "--tok-per-s",
    "flash_bytes_per_sec": "--flash-gb-per-s",
    "flash_latency_sec": "--flash-latency-us",
    "watts": "--watts",
}


@dataclass(frozen=True)
class EdgeDevice:
    """A device.

    Attributes:
        name: of it.
        decode_tok_per_sec: tokens that it writes a second.
        prefill_tok_per_sec: tokens that it reads a second.
        flash_bytes_per_sec: of what states and caches are loaded from.
        flash_latency_sec: of each read, until its first byte.
        watts: of the whole device at work; None where nobody knows.
        encoder_sec: the sentence encoder on a question.
        search_sec: finding the best keys.
        inject_sec: decoding a loaded state and copying it to where the model computes; of each state.
        tokenize_sec: the question.

    Raises:
        UsageError: a number that no device has: not finite, absurdly small (a time may be 0), or absurdly large.
    """

    name: str
    decode_tok_per_sec: float
    prefill_tok_per_sec: float
    flash_bytes_per_sec: float
    flash_latency_sec: float = 0.0
    watts: float | None = None
    encoder_sec: float = 0.0
    search_sec: float = 0.0
    inject_sec: float = 0.0
    tokenize_sec: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "name" or value is None:
                continue
            is_time = not item.name.endswith("per_sec") and item.name != "watts"
            most = LONGEST_SEC if is_time else MOST_WATTS if item.name == "watts" else MOST
            least = 0.0 if is_time else LEAST
            if not (math.isfinite(value) and least <= value <= most):
                option = _OPTIONS.get(item.name, item.name)
                scale = {"--flash-gb-per-s": 1e-9, "--flash-latency-us": 1e6}.get(option, 1.0)
                raise UsageError(
                    f"{option} is out of range",
                    given=f"{value * scale:g}",
                    expected=f"at least {least * scale:g}, at most {most * scale:g}",
                )

    def prefill_sec(self, tokens: int) -> float:
        """Seconds to read tokens."""
        return prefill_sec(tokens, self.prefill_tok_per_sec)

    def decode_sec(self, tokens: int) -> float:
        """Seconds to write tokens."""
        return prefill_sec(tokens, self.decode_tok_per_sec)

    def load_sec(self, num_bytes: int | float, reads: int = 1) -> float:
        """Seconds to read bytes from flash, in so many reads."""
        return reads * self.flash_latency_sec + load_sec(num_bytes, self.flash_bytes_per_sec)

    def joules(self, seconds: float) -> float | None:
        """Energy of so long at work; None where the watts are unknown."""
        return None if self.watts is None else self.watts * seconds

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


def paper_device(paper: Paper = PAPER) -> EdgeDevice:
    """The paper's: 19 tokens a second, 1 W, UFS 4.0 (Tables 2 and 9, appendix D.6).

    Appendix D counts the search in the 5 ms of retrieval, and loading in the 1 ms of injecting.
    """
    edge, flash = paper.edge, paper.platforms[0]
    load = load_sec(state_bytes(paper.model), flash.bytes_per_sec)
    return EdgeDevice(
        name="the paper's device",
        prefill_tok_per_sec=edge.tok_per_sec,
        decode_tok_per_sec=edge.tok_per_sec,
        flash_bytes_per_sec=flash.bytes_per_sec,
        watts=edge.watts,
        encoder_sec=edge.encoder_sec,
        inject_sec=edge.load_and_inject_sec - load,
        tokenize_sec=edge.tokenize_sec,
    )


def platform_device(platform: Platform, paper: Paper = PAPER) -> EdgeDevice:
    """A platform of Table 5 as the fastest device that its bandwidth allows (Fig. 5), reading token by token.

    Weights at FP16 are read for every token from where the states lie. The paper's own 19 tokens a second on UFS 4.0
    are eleven times that: its weights lie elsewhere. Watts are unknown; everything else is the paper's.
    """
    rate = state_tok_per_sec(platform.bytes_per_sec, weight_bytes(paper.model), paper.model)
    edge = paper.edge
    return EdgeDevice(
        name=platform.name,
        prefill_tok_per_sec=rate,
        decode_tok_per_sec=rate,
        flash_bytes_per_sec=platform.bytes_per_sec,
        encoder_sec=edge.encoder_sec,
        inject_sec=paper_device(paper).inject_sec,
        tokenize_sec=edge.tokenize_sec,
    )


PRESETS = ("paper", "ufs4", "ufs5", "lpddr5", "ddr5", "hbm3")
"""Names of known devices: the paper's, and the platforms of Table 5 in its order."""


def device_named(name: str, paper: Paper = PAPER) -> EdgeDevice:
    """A known device.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in PRESETS:
        raise UsageError("--device-preset: there is no such device", given=name, expected=", ".join(PRESETS))
    if name == "paper":
        return paper_device(paper)
    return platform_device(paper.platforms[PRESETS.index(name) - 1], paper)
