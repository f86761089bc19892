"""``precog train ask``: a model writes questions about prepared texts, to train on."""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from precog.backbones.registry import choose_device, find_model
from precog.cli import options, training
from precog.cli.output import counted, err, out, print_json, shown
from precog.cli.progress import RunProgress, is_first_process, say
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.train.asking.asker import default_settings
from precog.train.asking.command import ask_questions
from precog.train.asking.request import AskRequest
from precog.train.asking.write import Asking
from precog.train.parallel import place_in_world

SLICE_CHUNKS = {"cuda": 1024}
SLICE_CHUNKS_ELSEWHERE = 32
HIDDEN = ".asked"


def ask(
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Prepared sets, as `precog train-data` writes them; the new one is added.",
            show_default=False,
        ),
    ] = None,
    model: options.Model = None,
    learn_from: Annotated[str, typer.Option(metavar="NAME", help="Set whose questions people wrote.")] = "squad",
    about: Annotated[str, typer.Option(metavar="NAME", help="Set to ask about.")] = "wikipop",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the new set.")] = "asked",
    folder: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The asker and finished slices; a run found there is resumed.  \\[default: DATA/.asked/NAME]",
            show_default=False,
        ),
    ] = None,
    asker: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="A model that has learned to ask, instead of training one.", show_default=False
        ),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", help="Optimiser steps of the asker.")] = 140,
    chunks: Annotated[
        int | None,
        typer.Option(metavar="N", help="Most chunks to ask about.  \\[default: all]", show_default=False, min=1),
    ] = None,
    held_out_chunks: Annotated[int, typer.Option(metavar="N", help="The same of the held-out set.", min=0)] = 1024,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Of asking; run it again to go on.", show_default=False, min=0),
    ] = None,
    questions: Annotated[int, typer.Option("--questions", metavar="N", help="Asked of a chunk.", min=1)] = 4,
    temperature: Annotated[float, typer.Option(metavar="T", help="Of sampling.")] = 0.6,
    least_probability: Annotated[
        float,
        typer.Option(
            metavar="P", help="A question stays if the model answers it so, or holds the answer this probable."
        ),
    ] = 0.12,
    plain: Annotated[bool, typer.Option("--plain", help="Asked questions alone, without made ones.")] = False,
    slice_chunks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Chunks asked about at once.  \\[default: 1024 on CUDA, else 32]",
            show_default=False,
            min=1,
        ),
    ] = None,
    lr: training.Lr = None,
    batch_chunks: training.BatchChunks = None,
    questions_per_chunk: training.QuestionsPerChunk = None,
    accumulate: training.Accumulate = None,
    optimiser: training.Optimiser = None,
    dtype: training.Dtype = None,
    seed: options.Seed = 0,
    setting: training.Set = None,
    compiled: training.Compile = False,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Have a model write questions about texts, to train on. Ctrl-C keeps what is done; run it again to go on."""
    if data is None:
        raise UsageError("which data?", expected="--data DIR", hint="prepare texts with: precog train-data")
    for option, text in (("--name", name), ("--about", about), ("--learn-from", learn_from)):
        if not text or Path(text).name != text or text.startswith("."):
            raise UsageError(f"{option}: not the name of a set", given=text, expected="a name without slashes")
    if not 0 < temperature < float("inf"):
        raise UsageError("--temperature is out of range", given=temperature, expected="above 0")
    if not 0 <= least_probability <= 1:
        raise UsageError("--least-probability is out of range", given=least_probability, expected="0 to 1")
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
    resolved = resolve({"model": model, "device": device, "threads": threads})
    source = training.existing(data, "--data")
    base = find_model(resolved.model)
    where = choose_device(resolved.device)
    values = training.with_defaults({"warmup_steps": max(1, steps // 7), **values}, where)
    _, world = place_in_world()
    settings = training.checked(lambda chosen: default_settings(dict(chosen), where, world), values)
    if resolved.threads is not None:
        torch.set_num_threads(resolved.threads)
    request = AskRequest(
        base,
        source,
        source / HIDDEN / name if folder is None else expanded(folder),
        settings,
        Asking(
            slice_chunks or SLICE_CHUNKS.get(where.type, SLICE_CHUNKS_ELSEWHERE),
            questions,
            temperature=temperature,
            least_probability=least_probability,
            seed=seed,
        ),
        learn_from,
        about,
        name,
        None if asker is None else training.existing(asker, "--asker"),
        chunks,
        held_out_chunks,
        seconds,
        plain,
    )
    with RunProgress() as progress:
        result = ask_questions(
            request, where, compiled=compiled, on_training=progress, on_asking=progress.of("slice"), say=say
        )
    if is_first_process():
        if as_json:
            print_json(result)
        else:
            _print_result(result, request)
    return 0


def _print_result(result: dict[str, Any], request: AskRequest) -> None:
    for part in ("val", "train"):
        figures = result.get(part)
        if figures is None:
            continue
        told = ", ".join(f"{key.replace('_', ' ')} {count:,}" for key, count in figures["refused"].items() if count)
        err.print(f"{part}: {figures['kept']:,} of {counted(figures['asked'], 'question')} stay; refused: {told or 0}")
    figures = result["train"]
    for sample in figures["samples"]:
        err.print(f"  {shown(sample['question'])} => {shown(sample['answer'])}")
    if figures["chunks"] < figures["chunks_wanted"]:
        err.print(
            f"{figures['chunks']:,} of {figures['chunks_wanted']:,} chunks were asked about; run it again to go on"
        )
    rows = counted(figures["questions"], "row")
    out.print(f"written: {request.data / 'train' / request.name}, {rows}", markup=False)
