"""``precog eval hotpot``: states of several paragraphs composed, for questions that need two of them."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_rows import gain_cell, measured, whole_numbers, words
from precog.cli.output import counted, human_seconds, out, print_json
from precog.cli.quality import Quality, print_tally
from precog.config import resolve
from precog.errors import InputError, UsageError
from precog.evaluate.hotpot import TOP_K, Hotpot, HotpotSettings
from precog.evaluate.hotpot_answers import DEFAULT_RULES
from precog.evaluate.hotpot_data import OFFICIAL, REBUILT, read_hotpot
from precog.evaluate.subset import sample_questions


def hotpot(
    data: Annotated[Path, typer.Option(metavar="FILE", help="HotpotQA distractor JSON, or JSON lines (.gz allowed).")],
    limit: options.Limit = None,
    seed: options.Seed = 0,
    setting: Annotated[
        str, typer.Option(metavar=f"{OFFICIAL}|{REBUILT}|all", help="Questions whose paragraphs are these.")
    ] = "all",
    top_k: Annotated[str, typer.Option(metavar="K,K,…", help="How many of the best paragraphs are composed.")] = (
        ",".join(map(str, TOP_K))
    ),
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="R,R,…",
            help="mean, concat, permute, mix, replay; @T is a temperature, +layer renorms, :K/K says at which k.  "
            f"\\[default: {','.join(DEFAULT_RULES)}, as far as the model's states allow]",
            show_default=False,
        ),
    ] = None,
    free: Annotated[bool, typer.Option("--free", help="Answer freely, too, beside words that were read.")] = False,
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
    """HotpotQA: the best k of a question's ten paragraphs, composed by every rule, against the best alone."""
    how = Quality.of(quality, None, study_steps, study_seconds)
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    if setting not in (OFFICIAL, REBUILT, "all"):
        raise UsageError("--setting: no such choice", given=setting, expected=f"{OFFICIAL}, {REBUILT} or all")
    named = () if rules is None else words(rules)
    if rules is not None and not named:
        raise UsageError("--rules names no rule", given=rules, hint="leave it out for the usual ones")
    chosen = HotpotSettings(whole_numbers("--top-k", top_k), named, free, codec, seed)
    everything = read_hotpot(data)
    kept = [question for question in everything if setting in (question.setting, "all")]
    if not kept:
        given = f"{counted(len(everything), 'question')}, --setting {setting}"
        raise InputError("no question of the file has such paragraphs", given=given)
    questions = sample_questions(kept, limit, seed)
    backbone = load_backbone(
        settings.model, encode_mode=how.encode_mode, device=settings.device, threads=settings.threads
    )
    experiment = Hotpot(questions, backbone, chosen, settings.encoder, how.study(backbone), how.name)
    report = how.told(measured(experiment), experiment.tally)
    if as_json:
        print_json(report)
    else:
        for name, table in cast(dict[str, dict[str, Any]], report["tables"]).items():
            _print_table(name, table)
        print_tally(experiment.tally)
    return 0


def _print_table(setting: str, found: dict[str, Any]) -> None:
    title = f"HotpotQA, {setting}, {counted(found['n'], 'question')}"
    table = Table("k", "rule", "EM", "F1", "ΔF1 to k = 1", "spans", "tokens", "time", title=title)
    for row in found["rows"]:
        spans = row["without_yes_no"]
        table.add_row(
            str(row["k"]),
            row["rule"] if row["decoding"] == "grounded" else f"{row['rule']}, {row['decoding']}",
            f"{row['em']:.1f}",
            f"{row['f1']:.1f}",
            gain_cell(row["f1_gain"]),
            "" if spans is None else f"{spans['f1']:.1f}",
            f"{row['mean_tokens_processed']:.0f}",
            human_seconds(row["mean_latency_sec"]),
        )
    out.print(table)
    recall = found["recall"]
    if recall["n"]:
        for name, told in (("recall_any", "at least one"), ("recall_all", "all")):
            shares = ", ".join(f"@{k} {share:.3f}" for k, share in recall[name].items())
            out.print(f"{told} of the supporting paragraphs found: {shares} (of {counted(recall['n'], 'question')})")
    yes_no = counted(found["num_yes_no"], "question")
    out.print(f"{yes_no} answered by yes or no, which a grounded answer cannot say: spans is the F1 of the others")
