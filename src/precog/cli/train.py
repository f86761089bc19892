"""``precog train``: text or prepared data to a model; ``finetune``, ``lora`` and ``merge`` go on with one, ``ask`` has
one write questions to train on.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import typer

from precog.backbones.registry import choose_device
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.target import refuse_foreign
from precog.cli import options, training
from precog.cli.finetune import RUNS, finetune, lora, merge
from precog.cli.output import err, out, print_json
from precog.cli.progress import EVALUATED, RunProgress, is_first_process, say
from precog.cli.train_ask import ask
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.train.data.folder import is_prepared, prepare_folder
from precog.train.parallel import agreed, join
from precog.train.settings import TrainSettings
from precog.train.start import MODEL_FOLDER, start

if TYPE_CHECKING:
    from typer import Context
else:
    Context = typer.Context.__mro__[1]  # what the library passes is no instance of the class it names

SHOWN = ("answer", "grounded", "exact", "exact_without_state", "lm", "perplexity")

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
app.command()(finetune)
app.command()(lora)
app.command()(merge)
app.command()(ask)


@app.callback(invoke_without_command=True)
def train(
    context: Context,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="A folder of texts, conversations and SQuAD files, or of sets that `precog train-data` prepared.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Shape of the model: tiny, tiny-outer, base, paper.")
    ] = "base",
    folder: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Checkpoints, metrics and the model; a run found there is resumed.  \\[default: runs/PRESET]",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", help="Optimiser steps.")] = 1000,
    minutes: Annotated[
        float | None, typer.Option(metavar="M", help="Stop by the clock, if that is sooner.", show_default=False)
    ] = None,
    mixture: Annotated[
        str | None, typer.Option(metavar="FILE", help="Shares of the sets, as JSON.", show_default=False)
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Weights to start from: a model folder, the folder of a run, or a safetensors file.",
            show_default=False,
        ),
    ] = None,
    lr: training.Lr = None,
    batch_chunks: training.BatchChunks = None,
    questions_per_chunk: training.QuestionsPerChunk = None,
    accumulate: training.Accumulate = None,
    optimiser: training.Optimiser = None,
    dtype: training.Dtype = None,
    parallel: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ddp|fsdp",
            help="Several GPUs (torchrun): copies of the model, or shards.  \\[default: auto]",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    setting: training.Set = None,
    compiled: training.Compile = False,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes that prepare texts.", min=1)] = (
        os.cpu_count() or 1
    ),
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Train a model from scratch on a folder of texts. Ctrl-C saves; run it again to go on."""
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return 0
    if data is None:
        raise UsageError("which data?", expected="--data PATH", hint="a folder of texts is enough")
    resolved = resolve({"device": device, "threads": threads})
    config = TennsConfig.preset(preset)
    values = training.chosen_settings(
        setting,
        steps=steps,
        minutes=minutes,
        lr=lr,
        batch_chunks=batch_chunks,
        questions_per_chunk=questions_per_chunk,
        accumulate=accumulate,
        optimiser=optimiser,
        dtype=dtype,
        parallel=parallel,
        seed=seed,
    )
    where = choose_device(resolved.device)
    small = training.SMALL_BATCHES if where.type == "cpu" else {}
    settings = training.checked(
        lambda chosen: TrainSettings.from_dict({**small, **chosen}), training.with_defaults(values, where)
    )
    source = training.existing(data, "--data")
    shares = None if mixture is None else training.existing(mixture, "--mixture")
    weights = None if initial is None else training.existing(initial, "--initial")
    if resolved.threads is not None:
        torch.set_num_threads(resolved.threads)
    target = RUNS / preset if folder is None else expanded(folder)
    training.check_name(target.resolve().name, "the folder's name, which the model gets,", "choose another --out")
    refuse_foreign(target / MODEL_FOLDER, "model")
    if folder is None:
        say(f"writing to {target}")
    prepared = _prepared(source, target / "data", seed, workers, where)
    with RunProgress() as progress:
        last = start(
            config,
            settings,
            prepared,
            target,
            shares,
            weights,
            where,
            compiled,
            on_progress=progress,
            say=say,
            data_name=str(source),
            on_evaluation=progress.of(EVALUATED),
        )
    if is_first_process():
        if as_json:
            print_json(last)
        else:
            _print_result(last, target)
    return 0


def _refuse_options(context: Context) -> None:
    """Options before a sub-command would be lost without a word.

    Raises:
        UsageError: there are some.
    """
    given = [name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")]
    if given:
        command = context.invoked_subcommand
        hint = f"write them after `precog train {command}`"
        raise UsageError("options stand before the command", given=", ".join(given), hint=hint)


def _prepared(source: Path, target: Path, seed: int, workers: int, device: torch.device) -> Path:
    """The sets that were given, or those made once from texts, kept beside the run that reads them."""
    if source.is_dir() and is_prepared(source):
        return source
    device = join(device)
    with agreed(device):
        if is_first_process():
            prepare_folder(source, target, seed, workers, say)
    with agreed(device):
        return prepare_folder(source, target, seed, workers)


def _print_result(last: dict[str, object], folder: Path) -> None:
    evaluation = last.get("evaluation")
    if isinstance(evaluation, dict):
        for name, figures in evaluation.items():
            told = ", ".join(f"{key.replace('_', ' ')} {figures[key]:g}" for key in SHOWN if key in figures)
            err.print(f"held out, {name}: {told}", markup=False)
    out.print(f"trained: `precog ask … --model {folder / MODEL_FOLDER}` uses it", markup=False)
