"""What stored states would buy on a device: the report of ``precog edge --json`` for a request."""

from collections.abc import Mapping
from dataclasses import replace

from precog.bench.machine import Machine
from precog.plan.device import PRESETS, EdgeDevice, device_named
from precog.plan.device_changes import DeviceChanges, assumed
from precog.plan.measured import MeasuredDevice, measure_device
from precog.plan.purchase import purchase
from precog.plan.timeline import Question
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.tenant import make_private
from precog.server.wording import without_flags
from precog.server.work import Job

_CODEC = "fp16"


def known_devices() -> list[dict[str, object]]:
    """The paper's device and the platforms of its Table 5, by the name that a request gives."""
    return [{"preset": name, **device_named(name).to_json()} for name in PRESETS]


def bought(
    device: EdgeDevice | None, preset: str | None, changes: DeviceChanges, question: Question, num_chunks: int
) -> dict[str, object]:
    """What states buy on a device that is told, or a known one, as changed.

    Raises:
        UsageError: a number that no device has, or too few chunks.
    """
    described = device_named(preset or PRESETS[0]) if device is None else device
    found = purchase(changes.on(described), question, num_chunks)
    notes = () if device is not None else assumed(preset)
    return _told(found.to_json(), changes, notes, measured=False)


def measured(
    services: Services,
    principal: Principal,
    job: Job,
    changes: DeviceChanges,
    question: Question,
    num_chunks: int,
    *,
    given_bytes: bool,
) -> dict[str, object]:
    """The same on this machine, measured with the server's model, reading chunks of 512 tokens.

    Args:
        services: of the server.
        principal: who asks.
        job: the work that this is done in.
        changes: numbers that are given, and win.
        question: that is asked.
        num_chunks: of the corpus.
        given_bytes: whether the state's size is given; otherwise it is the model's.

    Raises:
        UsageError: a number that no device has, or too few chunks.
        StorageError: the disk cannot be measured.
    """
    purchase(changes.on(device_named(PRESETS[0])), question, num_chunks)  # refused before anything is measured
    make_private(services.settings.data)

    def measure() -> MeasuredDevice:
        backbone = services.model(principal, job.cancelled).load("once")
        return measure_device(backbone, services.encoder, services.settings.data, name=Machine.here().cpu, codec=_CODEC)

    found = services.measuring.measured(measure)
    question = question if given_bytes else replace(question, state_bytes=found.state_bytes)
    report = purchase(changes.on(found.device), question, num_chunks).to_json()
    return _told(report, changes, found.notes, measured=True)


def _told(
    report: Mapping[str, object], changes: DeviceChanges, notes: tuple[str, ...], *, measured: bool
) -> dict[str, object]:
    lines = [without_flags(line) for line in (*notes, *changes.notes())]
    return {**report, "measured": measured, "given": changes.given(), "notes": lines}
