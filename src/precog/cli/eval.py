"""``precog eval``: answers measured on a data set."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_abstain import abstain
from precog.cli.eval_bytes import bytes_
from precog.cli.eval_clusters import clusters
from precog.cli.eval_codecs import codecs
from precog.cli.eval_composition import composition
from precog.cli.eval_depth import depth
from precog.cli.eval_hotpot import hotpot
from precog.cli.eval_keys import keys
from precog.cli.eval_locomo import locomo
from precog.cli.eval_long import long
from precog.cli.eval_nq import nq
from precog.cli.eval_pareto import pareto
from precog.cli.eval_temperature import temperature
from precog.cli.eval_theorem import theorem
from precog.cli.output import human_bytes, human_seconds, out, print_json
from precog.cli.progress import Counting
from precog.cli.quality import Quality, print_tally
from precog.config import expanded, resolve
from precog.engine.grounded import GroundedSettings
from precog.engine.modes import FreeSettings
from precog.engine.sampling import Sampling
from precog.evaluate.experiment import measured
from precog.evaluate.parts import parts_for
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.squad import IN_CONTEXT_ONCE, MODES, PART_MODES, Squad, SquadSettings
from precog.evaluate.squad_data import read_questions, sample_questions
from precog.state import codec_named
from precog.writing import output_file, output_target

app = typer.Typer(
    help="Measure answers on a data set.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def measure() -> None:
    """Measure answers on a data set."""


app.command()(composition)


@app.command()
def squad(
    data: options.SquadFile,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    context: Annotated[str, typer.Option(metavar="gold|retrieved", help="Where the paragraph comes from.")] = "gold",
    modes: Annotated[
        str | None,
        typer.Option(
            metavar="M,M,…",
            help=f"Modes to run; {' and '.join(PART_MODES)} with --quality study.  \\[default: {','.join(MODES)}; "
            f"with {IN_CONTEXT_ONCE} where texts are read twice]",
            show_default=False,
        ),
    ] = None,
    free: Annotated[bool, typer.Option("--free", help="Decode freely instead of grounded.")] = False,
    codec: options.Codec = "fp16",
    quality: options.Quality = None,
    study_steps: options.StudySteps = None,
    study_seconds: options.StudySeconds = None,
    encode: Annotated[
        str | None,
        typer.Option(
            metavar="once|twice|twice-reversed",
            help="How paragraphs are read.  \\[default: as --quality says]",
            show_default=False,
        ),
    ] = None,
    beam: Annotated[int | None, typer.Option(metavar="N", help="Beam width; the model's own when left out.")] = None,
    compose_temperature: Annotated[float, typer.Option(help="Softmax temperature of inject_top3.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="With --free: nucleus sampling, 0.9 in the paper.")] = 1.0,
    samples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write every answer, as JSON lines.")
    ] = None,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """SQuAD v1.1: reading in context against injected states, with controls, on the same questions."""
    if samples is not None:
        samples = expanded(samples)
        output_target(samples, "file of samples")
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    Sampling(top_p=top_p)  # refused before a model is loaded
    if beam is not None:
        GroundedSettings(beam_width=beam)
    how = Quality.of(quality, encode, study_steps, study_seconds)
    usual = MODES if how.encode_mode == "once" else (MODES[0], IN_CONTEXT_ONCE, *MODES[1:])
    named = usual if modes is None else tuple(modes.split(","))
    chosen = SquadSettings(named, context, compose_temperature, seed, how.name)
    everything = read_questions(data)
    questions = sample_questions(everything, limit, seed)
    load = partial(load_backbone, settings.model, device=settings.device, threads=settings.threads)
    backbone = load(encode_mode=how.encode_mode)
    reads_twice = how.encode_mode != "once" and IN_CONTEXT_ONCE in chosen.modes
    once = load(encode_mode="once") if reads_twice else None
    decoding: GroundedSettings | FreeSettings
    if free:
        decoding = FreeSettings(
            max_tokens=24, sampling=Sampling(temperature=1.0 if top_p < 1 else 0.0, top_p=top_p, seed=seed)
        )
    else:
        decoding = GroundedSettings.from_card(
            {**backbone.card.decoding, **({} if beam is None else {"beam_width": beam})}
        )
    parts = parts_for(how.name, backbone, settings.encoder, codec_named(codec))
    reader = ParagraphReader(backbone, codec, decoding, how.study(backbone), once, parts)
    found_by = settings.encoder if parts is None else parts.encoder
    with Counting("questions") as bar:
        experiment = Squad(questions, everything, reader, chosen, found_by)
        records = measured(experiment, bar.show)
    report = how.told(experiment.report(records), reader.states.tally)
    if samples is not None:
        with output_file(samples, "file of samples", mode=0o644) as file:
            for record in records:
                said = {mode: answer["text"] for mode, answer in cast(dict[str, Any], record["said"]).items()}
                line = {**{key: record[key] for key in ("id", "question", "answers")}, "said": said}
                file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
    if as_json:
        print_json(report)
    else:
        _print_report(report)
        print_tally(reader.states.tally)
    return 0


app.command()(abstain)
app.command()(clusters)
app.command()(codecs)
app.command()(locomo)
app.command()(depth)
app.command()(temperature)
app.command()(pareto)
app.command("bytes")(bytes_)
app.command()(hotpot)
app.command()(theorem)
app.command()(nq)
app.command()(long)
app.command()(keys)


def _print_report(report: dict[str, object]) -> None:
    table = Table("mode", "EM", "F1", "95 %", "tokens read", "seconds", title=f"SQuAD v1.1, {report['n']} questions")
    rows = cast(dict[str, dict[str, Any]], report["modes"])
    for mode, row in rows.items():
        low, high = row["f1_interval"]
        table.add_row(
            mode,
            f"{row['em']:.1f}",
            f"{row['f1']:.1f}",
            f"{low:.1f} – {high:.1f}",
            f"{row['mean_tokens_processed']:.1f}",
            human_seconds(row["mean_latency_sec"]),
        )
    baseline = cast(dict[str, float], report["baseline"])
    table.add_row("rule, no model", f"{baseline['em']:.1f}", f"{baseline['f1']:.1f}", "", "", "")
    out.print(table)
    first = ", ".join(f"{mode} {human_seconds(row['mean_ttft_sec'])}" for mode, row in rows.items())
    out.print(f"first token after: {first}")
    made = human_seconds(cast(float, report["offline_sec"]))
    out.print(f"a paragraph's states: {human_bytes(cast(float, report['bytes']))}, made in {made}")
    if report["part_hit"] is not None:
        out.print(f"the chosen part holds an answer: {100 * cast(float, report['part_hit']):.1f} % of the questions")
        out.print(f"others were as near: {100 * cast(float, report['in_doubt_share']):.1f} % of the questions")
    for mode, share in cast(dict[str, float], report["agreement"]).items():
        out.print(f"{mode}: {100 * share:.1f} % of the answers are those of in_context")
    if report["recall"]:
        found = ", ".join(f"@{k} {value:.3f}" for k, value in cast(dict[str, float], report["recall"]).items())
        out.print(f"recall {found} over all paragraphs of the file")
