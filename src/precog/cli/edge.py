"""``precog edge``: what stored states would buy on a device, in virtual time, or on this machine as measured."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from precog.cli import options
from precog.cli.output import counted, human_bytes, human_seconds, out, print_json, shown
from precog.cli.progress import say
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.plan.device import PRESETS, EdgeDevice, device_named
from precog.plan.device_changes import DeviceChanges, assumed, figure
from precog.plan.paper import PAPER
from precog.plan.purchase import Purchase, purchase
from precog.plan.timeline import Question

_TITLES = {
    "inject": "inject",
    "in-context": "in context",
    "kv-cache": "KV loaded",
    "kv-recomputed": "KV again",
}
_ASKED = Question()


def edge(
    tok_per_s: Annotated[
        float | None,
        typer.Option(metavar="N", help="Tokens a second, read and written.  \\[default: 19]", show_default=False),
    ] = None,
    prefill_tok_per_s: Annotated[
        float | None, typer.Option(metavar="N", help="Tokens read a second, where it differs.", show_default=False)
    ] = None,
    watts: Annotated[
        float | None, typer.Option(metavar="W", help="Of the device at work.  \\[default: 1]", show_default=False)
    ] = None,
    flash_gb_per_s: Annotated[
        float | None, typer.Option(metavar="N", help="GB a second from flash.  \\[default: 4.2]", show_default=False)
    ] = None,
    flash_latency_us: Annotated[
        float | None,
        typer.Option(metavar="N", help="Microseconds until a read's first byte.  \\[default: 0]", show_default=False),
    ] = None,
    device_preset: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(PRESETS),
            help=f"A known device; the flags above change it.  \\[default: {PRESETS[0]}]",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure this machine and model instead; flags still win.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder on the disk that --measure reads from.  \\[default: .]", show_default=False
        ),
    ] = None,
    chunk: Annotated[int, typer.Option(metavar="N", help="Tokens of a chunk.")] = _ASKED.chunk_tokens,
    query: Annotated[int, typer.Option(metavar="N", help="Tokens of a question, template included.")] = (
        _ASKED.query_tokens
    ),
    answer: Annotated[int, typer.Option(metavar="N", help="Tokens of an answer.")] = _ASKED.answer_tokens,
    top_k: Annotated[
        int, typer.Option("--top-k", "--inject", metavar="N", help="Chunks brought in for a question.")
    ] = _ASKED.top_k,
    state_bytes: Annotated[
        int | None,
        typer.Option(metavar="BYTES", help="Of a stored state.  \\[default: 196608]", show_default=False),
    ] = None,
    chunks: Annotated[int, typer.Option(metavar="N", help="Chunks of the corpus.")] = PAPER.edge.corpus_chunks,
    model: options.Model = None,
    codec: Annotated[
        str | None,
        typer.Option(
            metavar=options.CODECS, help="How the model's states are stored.  \\[default: fp16]", show_default=False
        ),
    ] = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """What stored states would buy on a device: time, energy and storage, against reading and against a KV cache.

    Nothing is run, unless --measure is given: the device is what its numbers say. Injection overhead, what finding and
    injecting add to a question, and TTFT, all the time until its first token, are always both told.
    """
    _check_use(measure, model, state_bytes, {"--codec": codec, "--device": device, "--threads": threads})
    _check_measuring(measure, {"--encoder": encoder, "--folder": folder}, device_preset)
    # sizes and flags are refused before anything is loaded or measured
    question = Question(chunk, query, answer, top_k, _ASKED.state_bytes if state_bytes is None else state_bytes)
    described = device_named(device_preset or PRESETS[0])
    flags = DeviceChanges(tok_per_s, prefill_tok_per_s, watts, flash_gb_per_s, flash_latency_us)
    found = purchase(flags.on(described), question, chunks)
    notes: tuple[str, ...] = ()
    if measure or model is not None:
        given = {"model": model, "device": device, "threads": threads, "encoder": encoder}
        place = Path() if folder is None else folder
        described, size, notes = _open(described, given, codec or "fp16", measure=measure, found=found, folder=place)
        question = replace(question, state_bytes=size if state_bytes is None else state_bytes)
        found = purchase(flags.on(described), question, chunks)
    notes = (*notes, *flags.notes(), *(() if measure else assumed(device_preset)))
    if as_json:
        print_json({**found.to_json(), "measured": measure, "given": flags.given(), "notes": list(notes)})
    else:
        _print(found, notes)
    return 0


def _check_use(measure: bool, model: str | None, state_bytes: int | None, of_models: Mapping[str, object]) -> None:
    """Refuses options that would not be looked at."""
    if model is not None and state_bytes is not None and not measure:
        raise UsageError("--state-bytes and --model both say how large a state is", hint="leave one of them out")
    if model is None and not measure:
        for option, value in of_models.items():
            if value is not None:
                raise UsageError(f"{option} is about a model, and there is none", hint="give --model or --measure")


def _check_measuring(measure: bool, measured: Mapping[str, object], preset: str | None) -> None:
    """Refuses what only a measurement looks at, and what a measurement does not."""
    if measure and preset is not None:
        raise UsageError("--device-preset and --measure both say which device it is", hint="leave one of them out")
    for option, value in measured.items():
        if value is not None and not measure:
            raise UsageError(f"{option} is only measured", hint="give --measure")


def _open(
    described: EdgeDevice,
    given: Mapping[str, object],
    codec: str,
    *,
    measure: bool,
    found: Purchase,
    folder: Path,
) -> tuple[EdgeDevice, int, tuple[str, ...]]:
    """A model's state size, and the machine as it is measured."""
    from precog.backbones.registry import load_backbone
    from precog.bench.machine import Machine
    from precog.encoders import load_encoder
    from precog.plan.measured import measure_device, state_size
    from precog.state import codec_named

    codec_named(codec)  # refused before a model is loaded
    folder = expanded(folder)
    if measure and not folder.is_dir():
        raise UsageError("--folder: there is no such folder", given=folder)
    settings = resolve(given)
    backbone = load_backbone(settings.model, device=settings.device, threads=settings.threads)
    chunk_tokens = found.question.chunk_tokens
    if not measure:
        size = state_size(backbone, codec)
        return described, size, (f"states of {backbone.card.name} in {codec}",)
    measured = measure_device(
        backbone,
        load_encoder(settings.encoder),
        folder,
        name=Machine.here().cpu,
        codec=codec,
        chunk_tokens=chunk_tokens,
        num_keys=found.num_chunks,
        say=lambda text: say(f"measuring {text}"),
    )
    return measured.device, measured.state_bytes, measured.notes


def _print(found: Purchase, notes: tuple[str, ...]) -> None:
    device, asked = found.device, found.question
    out.print(f"[bold]{shown(device.name)}[/]")
    power = "watts unknown" if device.watts is None else f"{figure(device.watts)} W"
    rates = f"{figure(device.prefill_tok_per_sec)} tokens/s read, {figure(device.decode_tok_per_sec)} written"
    flash = f"{figure(device.flash_bytes_per_sec / 1e9)} GB/s from flash"
    if device.flash_latency_sec:
        flash += f" after {human_seconds(device.flash_latency_sec)}"
    out.print(f"  {rates}, {flash}, {power}")
    out.print(
        f"  {counted(asked.top_k, 'chunk')} of {counted(asked.chunk_tokens, 'token')}, "
        f"a question of {asked.query_tokens:,}, an answer of {asked.answer_tokens:,}, "
        f"a state of {asked.state_bytes:,} B"
    )
    table = Table("way", "added", "TTFT", "answer", "energy", "read", "corpus", box=SIMPLE)
    for line in found.timelines:
        table.add_row(
            _TITLES[line.way],
            human_seconds(line.added_sec),
            human_seconds(line.first_token_sec),
            human_seconds(line.total_sec),
            _energy(line.joules),
            human_bytes(line.num_bytes),
            human_bytes(found.storage_bytes(line.way)),
        )
    out.print(table)
    for text in (
        "added: what finding and bringing in adds to the question alone; TTFT: until the first token;",
        f"answer: until the last; read: from flash; corpus: {counted(found.num_chunks, 'chunk')} stored;",
        f"KV: a cache of {asked.cache_token_bytes:,} B a token, as Llama-3.2-1B's, of a model taken to be as fast,",
        "loaded as a prefix from flash, or computed again",
    ):
        out.print(f"  {text}", style="dim")
    _print_gains(found)
    for note in notes:
        out.print(shown(note), style="dim")


def _print_gains(found: Purchase) -> None:
    inject, reading = found.of("inject"), found.of("in-context")
    overhead = inject.added_sec
    faster = f", {_times(reading.added_sec / overhead, 'less', 'more')} than reading adds" if overhead else ""
    out.print(f"injection overhead {human_seconds(overhead)}{faster}")
    ratio = reading.first_token_sec / inject.first_token_sec
    out.print(f"TTFT {human_seconds(inject.first_token_sec)}, {_times(ratio, 'sooner', 'later')} than in context")
    least = found.break_even_tokens
    out.print(f"injecting is sooner than reading for chunks of {counted(least, 'token')} or more")
    spent = "" if found.device.watts is None else f" and {_energy(found.device.joules(found.encode_sec))}"
    encoding = f"encoding the corpus on this device takes {human_seconds(found.encode_sec)}{spent}"
    questions = found.questions_to_pay
    paid = "no question pays for it" if questions is None else f"paid for after {counted(questions, 'question')}"
    out.print(f"{encoding}: {paid}")
    if found.question.top_k > 1:
        out.print("the average of several states is approximate; a KV cache holds for the first chunk, others are read")


def _energy(joules: float | None) -> str:
    if joules is None:
        return "–"
    for unit, size in (("MJ", 1e6), ("kJ", 1e3), ("J", 1.0)):
        if joules >= size:
            return f"{figure(joules / size)} {unit}"
    return f"{figure(1e3 * joules)} mJ"


def _times(ratio: float, above: str, below: str) -> str:
    return f"{figure(ratio)}× {above}" if ratio >= 1 else f"{figure(1 / ratio)}× {below}"
