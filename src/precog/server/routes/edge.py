"""``/v1/edge``: what stored states would buy on a device, as ``precog edge --json`` prints it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from precog.plan.device import EdgeDevice
from precog.plan.device_changes import DeviceChanges
from precog.plan.paper import PAPER
from precog.plan.timeline import Question
from precog.server import edge
from precog.server.depends import Reader, ServicesDep
from precog.server.work import Job as Work

router = APIRouter(prefix="/v1/edge", tags=["operations"])
Preset = Literal["paper", "ufs4", "ufs5", "lpddr5", "ddr5", "hbm3"]
Number = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
Time = Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)]
_ASKED = Question()


class Device(BaseModel):
    """A device as an answer of this route tells it."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200)
    decode_tok_per_sec: Number
    prefill_tok_per_sec: Number
    flash_bytes_per_sec: Number
    flash_latency_sec: Time = 0.0
    watts: Number | None = None
    encoder_sec: Time = 0.0
    search_sec: Time = 0.0
    inject_sec: Time = 0.0
    tokenize_sec: Time = 0.0


class KnownDevice(Device):
    """One that has a name of its own."""

    preset: Preset


class Described(BaseModel):
    """A device, what is asked of it, and the corpus; what is left out is the paper's."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"preset": "paper", "tok_per_s": 50, "watts": 2}, {"measure": True}]},
    )

    preset: Preset | None = None
    device: Device | None = Field(None, description="Instead of a preset; such as was measured before.")
    measure: bool = Field(False, description="This machine and the server's model; a measurement holds for 30 s.")
    tok_per_s: Number | None = None
    prefill_tok_per_s: Number | None = None
    watts: Number | None = None
    flash_gb_per_s: Number | None = None
    flash_latency_us: Annotated[float, Field(ge=0, le=3.6e9, allow_inf_nan=False)] | None = None
    chunk: int = Field(_ASKED.chunk_tokens, ge=1, le=10**9)
    query: int = Field(_ASKED.query_tokens, ge=1, le=10**9)
    answer: int = Field(_ASKED.answer_tokens, ge=1, le=10**9)
    top_k: int = Field(_ASKED.top_k, ge=1, le=10**6)
    state_bytes: int | None = Field(None, ge=1, le=10**15)
    chunks: int = Field(PAPER.edge.corpus_chunks, ge=1, le=10**12)

    @model_validator(mode="after")
    def _is_one(self) -> "Described":
        if (self.preset is not None) + (self.device is not None) + self.measure > 1:
            raise ValueError("one of preset, device and measure says which device it is")
        return self

    def changes(self) -> DeviceChanges:
        """What is said of the device."""
        rate, latency = self.flash_gb_per_s, self.flash_latency_us
        return DeviceChanges(self.tok_per_s, self.prefill_tok_per_s, self.watts, rate, latency)

    def question(self) -> Question:
        """What is asked of it."""
        size = _ASKED.state_bytes if self.state_bytes is None else self.state_bytes
        return Question(self.chunk, self.query, self.answer, self.top_k, size)


class Bought(BaseModel):
    """Every way side by side, with its stages; the object of ``precog edge --json``."""

    device: Device
    question: dict[str, int]
    chunks: int
    ways: list[dict[str, Any]]
    injection_overhead_sec: float
    ttft_speedup: float
    added_speedup: float | None
    break_even_tokens: int
    encode_corpus_sec: float
    encode_corpus_joules: float | None
    questions_to_pay: int | None
    composition_exact: bool
    measured: bool
    given: dict[str, float]
    notes: list[str]


class KnownDevices(BaseModel):
    """Devices that have names, and what states buy on the first, the paper's."""

    presets: list[KnownDevice]
    report: Bought


@router.get("", operation_id="known_devices")
async def known_devices(principal: Reader) -> KnownDevices:
    """The devices that have names, and what stored states would buy on the paper's."""
    report = edge.bought(None, None, DeviceChanges(), _ASKED, PAPER.edge.corpus_chunks)
    return KnownDevices.model_validate({"presets": edge.known_devices(), "report": report})


@router.post("", operation_id="edge")
async def bought(request: Request, body: Described, services: ServicesDep, principal: Reader) -> Bought:
    """Time, energy and storage on a device, against reading and against a KV cache; in virtual time, or measured."""
    question, changes = body.question(), body.changes()

    def work(job: Work) -> dict[str, object]:
        if body.measure:
            given_bytes = body.state_bytes is not None
            return edge.measured(services, principal, job, changes, question, body.chunks, given_bytes=given_bytes)
        device = None if body.device is None else EdgeDevice(**body.device.model_dump())
        return edge.bought(device, body.preset, changes, question, body.chunks)

    return Bought.model_validate(await services.workers.run(request, work))
