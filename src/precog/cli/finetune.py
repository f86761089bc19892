"""``precog train finetune``, ``lora`` and ``merge``: a trained model goes on with examples of one's own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from precog.backbones.registry import choose_device, find_model, installed_models
from precog.backbones.tenns.lora import TARGETS, LoraSettings
from precog.backbones.tenns.quantise import SCHEMES
from precog.backbones.tenns.target import refuse_foreign
from precog.cli import options, training
from precog.cli.output import counted, out, print_json
from precog.cli.progress import EVALUATED, RunProgress, is_first_process, say
from precog.config import expanded, resolve
from precog.errors import ModelError, UsageError
from precog.train.adapter import merge_adapter
from precog.train.examples import only_conversations
from precog.train.finetune import ADAPTER_FOLDER, Finetuned, FinetuneRequest, default_settings
from precog.train.finetune import finetune as run_finetune
from precog.train.start import MODEL_FOLDER

RUNS = Path("runs")

Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="SQuAD v1.1 (JSON or JSON lines) or conversations (JSON lines), .gz allowed; may be given again.",
        show_default=False,
    ),
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", help="Optimiser steps.")]
HeldOut = Annotated[
    float, typer.Option("--held-out", metavar="SHARE", help="Share of the examples that is only measured on.")
]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Of the result.  \\[default: its folder's]", show_default=False)
]


def finetune(
    data: Data = None,
    model: options.Model = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Checkpoints, metrics and the model; a run found there is resumed.  \\[default: runs/MODEL-finetuned]",
            show_default=False,
        ),
    ] = None,
    steps: Steps = 100,
    lr: training.Lr = None,
    batch_chunks: training.BatchChunks = None,
    questions_per_chunk: training.QuestionsPerChunk = None,
    accumulate: training.Accumulate = None,
    optimiser: training.Optimiser = None,
    dtype: training.Dtype = None,
    seed: options.Seed = 0,
    held_out: HeldOut = 0.1,
    name: Name = "",
    setting: training.Set = None,
    compiled: training.Compile = False,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Train all weights of a model on examples; run it again to resume."""
    values = training.chosen_settings(
        setting,
        steps=steps,
        lr=lr,
        batch_chunks=batch_chunks,
        questions_per_chunk=questions_per_chunk,
        accumulate=accumulate,
        optimiser=optimiser,
        dtype=dtype,
        seed=seed,
    )
    return _run(
        data, model, folder, values, None, held_out, name, compiled, device=device, threads=threads, as_json=as_json
    )


def lora(
    data: Data = None,
    model: options.Model = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Checkpoints, metrics and the adapter; a run found there is resumed.  \\[default: runs/MODEL-lora]",
            show_default=False,
        ),
    ] = None,
    steps: Steps = 100,
    rank: Annotated[int, typer.Option(metavar="R", help="Of the adapter.")] = 32,
    alpha: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="The update is scaled by alpha / rank.  \\[default: the rank]", show_default=False
        ),
    ] = None,
    dropout: Annotated[float, typer.Option(metavar="SHARE", help="Of the adapter's inputs, in training.")] = 0.0,
    targets: Annotated[str, typer.Option(metavar="NAME,…", help="Matrices that are adapted.")] = ",".join(TARGETS),
    lr: training.Lr = None,
    batch_chunks: training.BatchChunks = None,
    questions_per_chunk: training.QuestionsPerChunk = None,
    accumulate: training.Accumulate = None,
    dtype: training.Dtype = None,
    seed: options.Seed = 0,
    held_out: HeldOut = 0.1,
    name: Name = "",
    setting: training.Set = None,
    compiled: training.Compile = False,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Train a low-rank adapter beside a model that stays as it is; run it again to resume."""
    values = training.chosen_settings(
        setting,
        steps=steps,
        lr=lr,
        batch_chunks=batch_chunks,
        questions_per_chunk=questions_per_chunk,
        accumulate=accumulate,
        dtype=dtype,
        seed=seed,
    )
    if values.get("optimiser", "adamw") != "adamw":
        raise UsageError("an adapter is trained by AdamW", given=f"optimiser={values['optimiser']}")
    names = tuple(part.strip() for part in targets.split(",") if part.strip())
    try:
        adapter = LoraSettings(rank, alpha, dropout, names)
    except ModelError as error:
        raise UsageError(error.message, given=error.given, expected=error.expected) from error
    return _run(
        data, model, folder, values, adapter, held_out, name, compiled, device=device, threads=threads, as_json=as_json
    )


def merge(
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="Folder of an adapter.")],
    folder: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the model goes.")],
    base: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|NAME", help="Its base.  \\[default: where the adapter says it is]", show_default=False
        ),
    ] = None,
    matrices: Annotated[str, typer.Option(metavar="SCHEME", help=f"How matrices are stored: {', '.join(SCHEMES)}.")] = (
        "fp32"
    ),
    embedding: Annotated[str, typer.Option(metavar="SCHEME", help="The same for the embeddings.")] = "fp32",
    as_json: options.Json = False,
) -> int:
    """Make one model of an adapter and its base."""
    for option, scheme in (("--matrices", matrices), ("--embedding", embedding)):
        if scheme not in SCHEMES:
            raise UsageError(f"{option}: unknown scheme", given=scheme, expected=", ".join(SCHEMES))
    source, target = expanded(adapter), expanded(folder)
    card = merge_adapter(source, target, base=base, matrices=matrices, embedding=embedding)
    num_bytes = sum(path.stat().st_size for path in target.glob("model*.safetensors"))
    if as_json:
        quantisation = dict(card.quantisation)
        print_json({"model": card.name, "folder": str(target), "quantisation": quantisation, "bytes": num_bytes})
    else:
        out.print(f"merged: `precog ask … --model {target}` uses it", markup=False)
        _hint_at_corpora(target)
    return 0


def _run(
    data: list[str] | None,
    model: str | None,
    folder: str | None,
    values: Mapping[str, Any],
    adapter: LoraSettings | None,
    held_out: float,
    name: str,
    compiled: bool,
    *,
    device: str | None,
    threads: int | None,
    as_json: bool,
) -> int:
    resolved = resolve({"model": model, "device": device, "threads": threads})
    if not data:
        hint = 'SQuAD v1.1, or conversations: {"messages": [{"role", "content"}]} on every line'
        raise UsageError("which examples?", expected="--data FILE", hint=hint)
    if not 0 < held_out < 1:
        raise UsageError("--held-out is out of range", given=held_out, expected="above 0, below 1")
    files = tuple(training.existing(path, "--data") for path in data)
    base = find_model(resolved.model)
    installed = {path.resolve(): key for key, path in installed_models().items()}
    base_name = installed.get(base.resolve(), str(base.resolve()))
    method = "finetuned" if adapter is None else "lora"
    target = RUNS / f"{os.path.basename(base_name)}-{method}" if folder is None else expanded(folder)
    _check_result(base, target, name, base_name, is_adapter=adapter is not None)
    if folder is None:
        say(f"writing to {target}")
    only_chat = only_conversations(files)
    where = choose_device(resolved.device)
    settings = training.checked(
        lambda chosen: default_settings(chosen, lora=adapter is not None, only_chat=only_chat),
        training.with_defaults(values, where),
    )
    if resolved.threads is not None:
        torch.set_num_threads(resolved.threads)
    request = FinetuneRequest(base, base_name, files, target, settings, adapter, name, held_out)
    with RunProgress() as progress:
        result = run_finetune(
            request,
            where,
            compiled=compiled,
            on_progress=progress,
            say=say,
            on_evaluation=progress.of(EVALUATED),
        )
    if is_first_process():
        if as_json:
            print_json(result.to_json())
        else:
            _print_result(result, adapter is not None)
    return 0


def _check_result(base: Path, target: Path, name: str, base_name: str, *, is_adapter: bool) -> None:
    """Whether the result can be written when it is there, which is late.

    Raises:
        UsageError: a name cannot be written, or the folder is the base's own or holds somebody else's files.
    """
    if name:
        training.check_name(name)
    else:
        training.check_name(target.resolve().name, "the folder's name", "give the result another with --name")
    if is_adapter:
        training.check_name(base_name, "the path of the base", "an adapter's card says where its base is")
    result = target / (ADAPTER_FOLDER if is_adapter else MODEL_FOLDER)
    if result.resolve() == base.resolve():
        raise UsageError("the result would replace the model it starts from", given=result, hint="choose another --out")
    refuse_foreign(result, "adapter" if is_adapter else "model")


def _print_result(result: Finetuned, is_adapter: bool) -> None:
    before, after = result.before, result.after
    out.print(f"held out: {counted(result.num_held_out, 'question')}, trained on: {result.num_train:,}")
    out.print(f"cross-entropy of answers: {before['answer']:.3f} → [bold]{after['answer']:.3f}[/] nats per token")
    if "exact" in after:
        out.print(f"answered exactly: {100 * before['exact']:.1f} % → [bold]{100 * after['exact']:.1f} %[/]")
    out.print(f"trained: `precog ask … --model {result.folder}` uses it", markup=False)
    if is_adapter:
        out.print(f"`precog train merge {result.folder} --out DIR` makes one model of base and adapter", markup=False)
    _hint_at_corpora(result.folder)


def _hint_at_corpora(folder: Path) -> None:
    out.print(f"a corpus of its base moves to it with: precog reindex --corpus DIR --model {folder}", markup=False)
