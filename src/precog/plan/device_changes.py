"""A known device as somebody changes it, and lines that say where its numbers come from."""

from dataclasses import asdict, dataclass, replace

from precog.plan.device import PRESETS, EdgeDevice, paper_device


@dataclass(frozen=True)
class DeviceChanges:
    """What somebody says of a device; None for what stays as it is.

    Attributes:
        tok_per_s: tokens a second that it writes, and reads unless the next says otherwise.
        prefill_tok_per_s: tokens a second that it reads.
        watts: of the device at work.
        flash_gb_per_s: GB a second from flash.
        flash_latency_us: microseconds until a read's first byte.
    """

    tok_per_s: float | None = None
    prefill_tok_per_s: float | None = None
    watts: float | None = None
    flash_gb_per_s: float | None = None
    flash_latency_us: float | None = None

    def given(self) -> dict[str, float]:
        """What was said, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def notes(self) -> tuple[str, ...]:
        """A line that says which numbers are the user's."""
        named = ", ".join(f"--{name.replace('_', '-')} {figure(value)}" for name, value in self.given().items())
        return (f"given, neither measured nor assumed: {named}",) if named else ()

    def on(self, device: EdgeDevice) -> EdgeDevice:
        """The device as changed; reading is as fast as writing where only that is said.

        Raises:
            UsageError: a number that no device has.
        """
        prefill = self.tok_per_s if self.prefill_tok_per_s is None else self.prefill_tok_per_s
        rate, latency = self.flash_gb_per_s, self.flash_latency_us
        return replace(
            device,
            decode_tok_per_sec=device.decode_tok_per_sec if self.tok_per_s is None else self.tok_per_s,
            prefill_tok_per_sec=device.prefill_tok_per_sec if prefill is None else prefill,
            watts=device.watts if self.watts is None else self.watts,
            flash_bytes_per_sec=device.flash_bytes_per_sec if rate is None else 1e9 * rate,
            flash_latency_sec=device.flash_latency_sec if latency is None else 1e-6 * latency,
        )


def assumed(preset: str | None) -> tuple[str, ...]:
    """Lines that say where the numbers of a known device come from that nobody gave."""
    paper = paper_device()
    told = (
        f"assumed, from the paper: {_short(paper.tokenize_sec)} to tokenise, "
        f"{_short(paper.encoder_sec)} to encode, no time to search, {_short(paper.inject_sec)} to inject",
    )
    if preset is None or preset == PRESETS[0]:
        return told
    return (
        *told,
        "tokens a second are what the bandwidth allows with FP16 weights read for each token; reading many at once is "
        "faster: --prefill-tok-per-s",
    )


def figure(value: float) -> str:
    """Three digits at least, and no powers of ten of what people can read without them."""
    return f"{value:,.0f}" if 100 <= value < 1e12 else f"{value:.3g}"


def _short(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
