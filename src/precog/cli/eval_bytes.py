"""``precog eval bytes``: the best answers that a number of bytes per chunk buys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog import figures
from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_rows import gain_cell, measured, print_rows, whole_numbers, words
from precog.cli.output import counted, out, print_json, shown
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.evaluate.budgets import BUDGETS, CODECS, RULES, STATES, Budgets, BudgetSettings
from precog.evaluate.spending import KB
from precog.evaluate.squad_data import read_questions, sample_questions
from precog.figures.checks import MOST_SERIES


def bytes_(
    data: options.SquadFile,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    budgets: Annotated[str, typer.Option(metavar="KB,KB,…", help="KB (1,024 bytes) for a chunk.")] = ",".join(
        map(str, BUDGETS)
    ),
    grid: Annotated[
        str, typer.Option("--codec-grid", metavar="C,C,…", help=f"Codecs to choose from, of {options.CODECS}.")
    ] = ",".join(CODECS),
    states: Annotated[
        str, typer.Option(metavar="K,K,…", help="States of a chunk: it is cut between sentences into K pieces.")
    ] = ",".join(map(str, STATES)),
    rules: Annotated[
        str,
        typer.Option(
            metavar="R,R,…",
            help="How several states answer: best (the best piece alone), mean, concat, permute, mix; @T is a "
            f"temperature.  \\[default: {','.join(RULES)}, as far as the model allows]",
            show_default=False,
        ),
    ] = "",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the best F1 by budget, as .png or .svg.")
    ] = None,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """What bytes are best spent on: bits, layers or several states of a chunk, on the same questions."""
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    amounts, counts = whole_numbers("--budgets", budgets), whole_numbers("--states", states)
    chosen = BudgetSettings(amounts, words(grid), counts, words(rules), seed)
    if plot is not None:
        plot = expanded(plot)
        figures.check_target(plot)
        if len(counts) > MOST_SERIES:
            given, expected = f"{len(counts)} numbers of states", f"at most {MOST_SERIES}"
            raise UsageError("--plot: there is more than one picture can show", given=given, expected=expected)
    questions = sample_questions(read_questions(data), limit, seed)
    backbone = load_backbone(settings.model, encode_mode="once", device=settings.device, threads=settings.threads)
    report = measured(Budgets(questions, backbone, chosen, settings.encoder))
    if plot is not None:
        figures.draw(_picture(report), plot)
    if as_json:
        print_json({**report, "plot": None if plot is None else str(plot)})
        return 0
    _print(report)
    if plot is not None:
        out.print(f"drawn: {shown(str(plot))}")
    return 0


def _print(report: Mapping[str, Any]) -> None:
    found: Mapping[str, Mapping[str, Any]] = report["rows"]
    budgets: Mapping[str, Mapping[str, Any]] = report["budgets"]
    rows = {
        name: {
            **row,
            "size": f"{row['state_bytes'] / KB:.1f}",
            "best": ", ".join(budget for budget, told in budgets.items() if told["best"] == name),
        }
        for name, row in found.items()
    }
    against, title = report["against"], f"Bytes on SQuAD v1.1, {counted(report['n'], 'question')}"
    print_rows(title, rows, {"KB": "size", "best": "best"}, against=against)
    table = Table("KB", "rows", "best", "takes", "EM", "F1", f"ΔF1 to {against}", "chosen elsewhere", title="The best")
    for budget, told in budgets.items():
        row, elsewhere = rows[told["best"]], told["chosen_elsewhere"]
        table.add_row(
            budget,
            str(len(told["fitting"])),
            told["best"],
            row["size"],
            f"{row['em']:.1f}",
            f"{row['f1']:.1f}",
            gain_cell(row["f1_gain"]),
            "" if elsewhere is None else f"{elsewhere['f1']:.1f}, {gain_cell(elsewhere['f1_gain'])}",
        )
    out.print(table)
    out.print("chosen elsewhere: the best row of one half of the questions, scored on the other half")


def _picture(report: Mapping[str, Any]) -> figures.Curves:
    """The best F1 at each budget, a line for each number of states; and the level of FP16 states of whole chunks."""
    rows, budgets = cast(dict[str, dict[str, Any]], report["rows"]), cast(dict[str, dict[str, Any]], report["budgets"])
    lines = []
    for states in report["states"]:
        best = {}
        for budget, told in budgets.items():
            own = [rows[name] for name in told["fitting"] if rows[name]["states"] == states]
            if own:
                best[int(budget) * KB] = max(own, key=lambda row: row["f1"])
        if best:
            intervals = [row["f1_interval"] for row in best.values()]
            low, high = [interval[0] for interval in intervals], [interval[1] for interval in intervals]
            values = [row["f1"] for row in best.values()]
            lines.append(figures.Line(counted(states, "state"), list(best), values, low, high))
    level = figures.Level(f"{report['against']}, at any budget", y=rows[report["against"]]["f1"])
    x, y = figures.Axis("bytes per chunk", "B", "log"), figures.Axis("best F1", "%")
    panel = figures.Panel("of all that fits, with 95 % intervals", x, y, lines, levels=[level])
    return figures.Curves("What bytes buy", [panel])
