"""``precog bench``: speed and memory, as ratios to what the machine can do."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from precog.backbones.protocol import Backbone
from precog.backbones.registry import choose_device
from precog.bench import decode as decode_bench
from precog.bench import encode as encode_bench
from precog.bench import forget as forget_bench
from precog.bench import index as index_bench
from precog.bench import scan as scan_bench
from precog.bench import serve as serve_bench
from precog.bench import session as session_bench
from precog.bench import store as store_bench
from precog.bench import train as train_bench
from precog.bench import ttft as ttft_bench
from precog.bench.model import choose_threads, model_name, open_backbone, state_spec
from precog.bench.packed import open_packed
from precog.bench.result import Result, Value
from precog.cli import options
from precog.cli.bench_load import load
from precog.cli.output import err, human_bytes, human_seconds, out, print_json, shown
from precog.cli.progress import Counting, RunProgress
from precog.config import resolve
from precog.errors import UsageError

app = typer.Typer(
    help="Measure speed, as ratios to the machine's limits.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="DIR|NAME|random:PRESET",
        help="Model; without one, the installed one, else an untrained random:base, whose timings are the same.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", metavar="DIR", help="Where temporary corpora are made: on the disk to measure.", show_default=False
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes: shows that it works, measures nothing.")]
Check = Annotated[bool, typer.Option("--check", help="Exit with 1 when a bound is missed.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", help="CPU threads of the model.  \\[default: 1]", show_default=False),
]


app.command()(load)


@app.callback()
def bench() -> None:
    """Measure speed, as ratios to the machine's limits."""


@app.command()
def ttft(
    chunks: Annotated[
        int | None,
        typer.Option("--chunks", metavar="N", help="Of the corpus.  \\[default: 10000]", show_default=False),
    ] = None,
    retrieval: options.Retrieval = None,
    encoder: options.Encoder = None,
    model: ModelName = None,
    device: options.Device = None,
    threads: Threads = None,
    folder: Folder = None,
    quick: Quick = False,
    check: Check = False,
    as_json: options.Json = False,
) -> int:
    """Time to the first token: injected, without context, and read in context."""
    settings = resolve(
        {"model": model, "device": device, "threads": threads, "encoder": encoder, "retrieval": retrieval}
    )
    sizes = ttft_bench.sized(quick=quick, num_chunks=chunks, retrieval=settings.retrieval)
    backbone = open_backbone(
        model_name(settings.model, quick=quick), device=settings.device, threads=settings.threads or 1
    )
    result = ttft_bench.bench_ttft(backbone, sizes, encoder=settings.encoder, folder=folder, quick=quick, say=_say)
    return _show(result, check=check, as_json=as_json)


@app.command()
def store(
    chunks: Annotated[
        int | None, typer.Option("--chunks", metavar="N", help="States.  \\[default: 2000]", show_default=False)
    ] = None,
    model: ModelName = None,
    folder: Folder = None,
    quick: Quick = False,
    check: Check = False,
    as_json: options.Json = False,
) -> int:
    """Reading one stored state, against one bare read of the same bytes."""
    settings = resolve({"model": model})
    sizes = store_bench.sized(quick=quick, num_chunks=chunks)
    spec = state_spec(model_name(settings.model))  # sizes alone: even a quick run takes those of a whole model
    result = store_bench.bench_store(spec, sizes, folder=folder, quick=quick, say=_say)
    return _show(result, check=check, as_json=as_json)


@app.command()
def index(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH…", help="Documents; synthetic text without.")
    ] = None,
    memory: Annotated[bool, typer.Option("--memory/--no-memory", help="Also measure how memory grows.")] = True,
    encoder: options.Encoder = None,
    model: ModelName = None,
    device: options.Device = None,
    threads: Threads = None,
    folder: Folder = None,
    quick: Quick = False,
    check: Check = False,
    as_json: options.Json = False,
) -> int:
    """Indexing, against bare reading and bare key encoding; and the memory it needs."""
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    backbone = open_backbone(
        model_name(settings.model, quick=quick), device=settings.device, threads=settings.threads or 1
    )
    result = index_bench.bench_index(
        backbone,
        index_bench.sized(quick=quick, memory=memory),
        paths=paths or (),
        encoder=settings.encoder,
        folder=folder,
        quick=quick,
        say=_say,
    )
    return _show(result, check=check, as_json=as_json)


@app.command()
def encode(
    model: ModelName = None,
    device: options.Device = None,
    threads: Threads = None,
    quick: Quick = False,
    as_json: options.Json = False,
) -> int:
    """Reading speed by batch size, against the machine's best matrix product."""
    settings = resolve({"model": model, "device": device, "threads": threads})
    backbone = open_backbone(
        model_name(settings.model, quick=quick), device=settings.device, threads=settings.threads or 1
    )
    sizes = encode_bench.QUICK if quick else None
    return _show(encode_bench.bench_encode(backbone, sizes, quick=quick, say=_say), as_json=as_json)


@app.command()
def decode(
    model: ModelName = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="An untrained model: same as --model random:NAME."),
    ] = None,
    int4: Annotated[
        bool, typer.Option("--int4", help="Matrices packed as INT4, products in BF16, on the CPU.")
    ] = False,
    group: Annotated[
        str, typer.Option("--group", metavar="32|64|128|channel", help="With --int4: weights that share a scale.")
    ] = "32",
    int8: Annotated[bool, typer.Option("--int8", help="Matrices packed as INT8, products in BF16.")] = False,
    bf16: Annotated[bool, typer.Option("--bf16", help="Matrices kept and multiplied in BF16.")] = False,
    embedding: Annotated[
        str | None,
        typer.Option(
            "--embedding",
            metavar="SCHEME",
            help="Of embeddings and output head, packed.  \\[default: int8; bf16 with --bf16]",
            show_default=False,
        ),
    ] = None,
    device: options.Device = None,
    threads: Threads = None,
    quick: Quick = False,
    as_json: options.Json = False,
) -> int:
    """Milliseconds a token, against reading the weights from memory once."""
    if preset is not None and model is not None:
        raise UsageError("either --preset or --model", given="both")
    settings = resolve({"model": model, "device": device, "threads": threads})
    name = f"random:{preset}" if preset is not None else model_name(settings.model, quick=quick)
    schemes = [*(["bf16"] if bf16 else []), *(["int8"] if int8 else []), *([f"int4:{group}"] if int4 else [])]
    if len(schemes) > 1:
        raise UsageError("one of --int4, --int8 and --bf16", given=" and ".join(schemes))
    if embedding is not None and not schemes:
        raise UsageError("--embedding goes with --int4, --int8 or --bf16", given=embedding)
    started = time.perf_counter()
    if schemes:
        if settings.device not in ("auto", "cpu"):
            raise UsageError("packed weights are multiplied on the CPU only", given=settings.device)
        _say("building")
        tables = embedding or ("bf16" if bf16 else "int8")
        backbone: Backbone = open_packed(name, matrices=schemes[0], embedding=tables, threads=settings.threads or 1)
    else:
        backbone = open_backbone(name, device=settings.device, threads=settings.threads or 1)
    result = decode_bench.bench_decode(backbone, quick=quick, build_sec=time.perf_counter() - started, say=_say)
    return _show(result, as_json=as_json)


@app.command()
def train(
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Shape of the model: tiny, tiny-outer, base, paper.")
    ] = "base",
    objective: Annotated[str, typer.Option(metavar="tokens|questions", help="What is learned.")] = "tokens",
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Windows or chunks of a micro-batch.  \\[default: 8; 2 on a CPU]", show_default=False
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens of a window or chunk.  \\[default: 1024; 256 on a CPU]", show_default=False
        ),
    ] = None,
    optimiser: Annotated[str, typer.Option(metavar="muon|adamw", help="Optimiser.")] = "adamw",
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Compute blocks again instead of keeping them.")
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", help="Steps that count.  \\[default: 10; 3 on a CPU]", show_default=False),
    ] = None,
    total_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens of a run whose time is estimated.  \\[default: 1000000000]", show_default=False
        ),
    ] = None,
    device: options.Device = None,
    threads: options.Threads = None,
    quick: Quick = False,
    as_json: options.Json = False,
) -> int:
    """Training: tokens and FLOP per second of the loop on made-up batches, and how long a run would take."""
    settings = resolve({"device": device, "threads": threads})
    place = choose_device(settings.device)
    sizes = train_bench.sized(
        place,
        quick=quick,
        objective=objective,
        rows=rows,
        tokens=tokens,
        optimiser=optimiser,
        recompute=recompute,
        repeats=steps,
        total_tokens=total_tokens,
    )
    if settings.threads is not None:  # else as many as training takes
        choose_threads(settings.threads)
    shape = "tiny" if quick else preset
    with RunProgress() as progress:
        result = train_bench.bench_train(shape, place, sizes, quick=quick, say=_say, on_progress=progress)
    return _show(result, as_json=as_json)


@app.command()
def session(
    deposits: Annotated[
        list[int] | None,
        typer.Option(
            "--deposits",
            metavar="N",
            help="Of the short history and, given again, of the long one.  \\[default: 10 and 100000]",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[str, typer.Option(metavar="NAME", help="Shape of the untrained model.")] = "tiny",
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: Threads = None,
    folder: Folder = None,
    quick: Quick = False,
    check: Check = False,
    as_json: options.Json = False,
) -> int:
    """The start of a session after a short history and a long one: time, and bytes read."""
    settings = resolve({"device": device, "threads": threads, "encoder": encoder})
    sizes = session_bench.sized(quick=quick, deposits=deposits)
    backbone = open_backbone(f"random:{preset}", device=settings.device, threads=settings.threads or 1)
    with Counting("writing deposits") as bar:
        result = session_bench.bench_session(
            backbone,
            sizes,
            encoder=settings.encoder,
            folder=folder,
            quick=quick,
            say=_say,
            on_deposits=bar.show,
        )
    return _show(result, check=check, as_json=as_json)


@app.command()
def forget(
    deposits: Annotated[
        int | None,
        typer.Option("--deposits", metavar="N", help="That a memory holds.  \\[default: 5000]", show_default=False),
    ] = None,
    preset: Annotated[str, typer.Option(metavar="NAME", help="Shape of the untrained model.")] = "tiny",
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: Threads = None,
    folder: Folder = None,
    quick: Quick = False,
    check: Check = False,
    as_json: options.Json = False,
) -> int:
    """Forgetting with proof: that nothing is left in any byte, and how long it takes."""
    settings = resolve({"device": device, "threads": threads, "encoder": encoder})
    sizes = forget_bench.sized(quick=quick, num_deposits=deposits)
    backbone = open_backbone(f"random:{preset}", device=settings.device, threads=settings.threads or 1)
    with Counting("reading deposits") as bar:
        result = forget_bench.bench_forget(
            backbone, sizes, encoder=settings.encoder, folder=folder, quick=quick, say=_say, on_deposits=bar.show
        )
    return _show(result, check=check, as_json=as_json)


@app.command()
def scan(
    other_tiles: Annotated[bool, typer.Option("--other-tiles", help="Also time tiles that are not used.")] = False,
    quick: Quick = False,
    check: Check = False,
    as_json: options.Json = False,
) -> int:
    """The fused selective scan on a CUDA device, against copying its inputs and outputs once."""
    sizes = scan_bench.QUICK if quick else None
    result = scan_bench.bench_scan(sizes, other_tiles=other_tiles, quick=quick, say=_say)
    return _show(result, check=check, as_json=as_json)


@app.command()
def serve(
    streams: Annotated[
        list[int] | None,
        typer.Option("--streams", metavar="N", help="Answers at once; repeatable.  \\[default: 1, 4, 16, 64]"),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", help="Of each answer.  \\[default: 64]", show_default=False)
    ] = None,
    model: ModelName = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    threads: Threads = None,
    quick: Quick = False,
    check: Check = False,
    as_json: options.Json = False,
) -> int:
    """Tokens a second of many answers at once, against one alone."""
    settings = resolve({"model": model, "device": device, "dtype": dtype, "threads": threads})
    sizes = serve_bench.sized(quick=quick, streams=streams, tokens=tokens)
    name = model_name(settings.model, quick=quick)
    backbone = open_backbone(name, device=settings.device, dtype=settings.dtype, threads=settings.threads or 1)
    return _show(serve_bench.bench_serve(backbone, sizes, quick=quick, say=_say), check=check, as_json=as_json)


def _say(what: str) -> None:
    err.print(f"[dim]{shown(what)} …[/]")


def _show(result: Result, *, check: bool = False, as_json: bool) -> int:
    if as_json:
        print_json(result.to_json())
    else:
        _print(result)
    return 1 if check and not result.ok else 0


def _print(result: Result) -> None:
    machine, subject = result.machine, result.subject
    load = "" if machine.load_average is None else f", load {machine.load_average:.1f}"
    out.print(f"[bold]bench {result.name}[/]: {machine.cpu}, {machine.cores} cores{load}, {machine.threads} thread(s)")
    if subject is not None:
        out.print(f"{shown(subject.name)}: {subject.parameters:,} parameters, {subject.dtype} on {subject.device}")
    times = Table("", "median", "10 %", "90 %")
    for name, value in result.values.items():
        if isinstance(value, dict) and "median_sec" in value:
            times.add_row(name, *(_cell(f"{key}_sec", value[f"{key}_sec"]) for key in ("median", "p10", "p90")))
    if times.row_count:
        out.print(times)
    for name, value in result.values.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            out.print(_rows(name, [row for row in value if isinstance(row, dict)]))
        elif not isinstance(value, dict | list):
            out.print(f"{name}: {_cell(name, value)}")
        elif isinstance(value, dict) and "median_sec" not in value:
            out.print(f"{name}: {_pairs(value)}")
    out.print(f"[dim]ceiling: {_pairs(result.ceiling)}[/]")
    if result.ratios:
        ratios = Table("ratio", "value", "bound", "", "what")
        for name, ratio in result.ratios.items():
            bound = f"{'≤' if ratio.at_most else '≥'} {ratio.target:g}"
            verdict = "[green]holds[/]" if ratio.ok else "[red]missed[/]"
            ratios.add_row(name, f"{ratio.value:.3f}", bound, verdict, ratio.meaning)
        out.print(ratios)
    for note in (*result.notes, *(["quick: these figures measure nothing"] if result.quick else [])):
        out.print(f"[dim]{shown(note)}[/]")


def _rows(name: str, rows: list[dict[str, Value]]) -> Table:
    table = Table(*rows[0], title=name)
    for row in rows:
        table.add_row(*(_cell(key, value) for key, value in row.items()))
    return table


def _pairs(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} {_cell(name, value)}" for name, value in values.items())


_UNITS: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_flops_per_sec", lambda value: f"{value / 1e9:,.1f} GFLOP/s"),
    ("_bytes_per_sec", lambda value: f"{human_bytes(value)}/s"),
    ("_per_sec", lambda value: f"{value:,.1f}/s"),
    ("_sec", human_seconds),
    ("_bytes", human_bytes),
)


def _cell(name: str, value: Value) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else shown(str(value))
    for unit, show in _UNITS:
        if name.endswith(unit):
            return show(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
