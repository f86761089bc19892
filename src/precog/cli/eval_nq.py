"""``precog eval nq``: passages of Natural Questions by length."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_lengths import print_lengths, print_overall
from precog.cli.eval_rows import measured
from precog.cli.output import counted, print_json
from precog.cli.quality import Quality, print_tally
from precog.config import resolve
from precog.errors import UsageError
from precog.evaluate.natural_questions import NaturalQuestions, NaturalQuestionsSettings, sample_per_bin
from precog.evaluate.natural_questions_data import read_natural_questions
from precog.evaluate.subset import sample_questions

ChunkTokens = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Longest chunk of a passage that is cut.  \\[default: the model's own]",
        min=0,
        show_default=False,
    ),
]


def nq(
    data: Annotated[
        Path, typer.Option(metavar="FILE", help="Natural Questions, simplified JSON lines, or QED's (.gz allowed).")
    ],
    limit: options.Limit = None,
    per_bin: Annotated[
        int | None, typer.Option(metavar="N", help="Most questions of each bin, instead of --limit.", min=1)
    ] = None,
    seed: options.Seed = 0,
    chunk_tokens: ChunkTokens = 0,
    free: options.Free = False,
    codec: options.Codec = "fp16",
    quality: options.Quality = None,
    study_steps: options.StudySteps = None,
    study_seconds: options.StudySeconds = None,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Natural Questions by length: read in context, one state for the whole passage, and its best chunk."""
    how = Quality.of(quality, None, study_steps, study_seconds)
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    if limit is not None and per_bin is not None:
        raise UsageError("--limit and --per-bin are two ways to choose questions", given=f"{limit} and {per_bin}")
    chosen = NaturalQuestionsSettings(chunk_tokens, codec, free, seed)
    everything = read_natural_questions(data)
    backbone = load_backbone(
        settings.model, encode_mode=how.encode_mode, device=settings.device, threads=settings.threads
    )
    if per_bin is None:
        questions = sample_questions(everything, limit, seed)
    else:
        questions = sample_per_bin(everything, backbone.tokenizer, per_bin, seed)
    experiment = NaturalQuestions(
        questions, everything, backbone, chosen, settings.encoder, how.study(backbone), how.name
    )
    report = how.told(measured(experiment), experiment.tally)
    if as_json:
        print_json(report)
        return 0
    bins = cast(dict[str, dict[str, Any]], report["bins"])
    title = f"Natural Questions by tokens of the passage, {counted(len(questions), 'question')}"
    shares = {name: found["share"] for name, found in bins.items()}
    print_lengths(title, "tokens", {name: found["measured"] for name, found in bins.items()}, shares)
    print_overall(cast(dict[str, Any], report["all"]))
    print_tally(experiment.tally)
    return 0
