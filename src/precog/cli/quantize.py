"""``precog quantize``: a model in fewer bits, and what that costs and brings."""

from pathlib import Path
from typing import Annotated, cast

import typer
from rich.table import Table

from precog.backbones.card import MOST_CHUNK_TOKENS
from precog.backbones.registry import find_model
from precog.cli import options
from precog.cli.output import err, human_bytes, out, print_json, shown
from precog.cli.training import check_name
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.text.chunking.strategy import MIN_MAX_TOKENS

CALIBRATED, PLAIN = "int4:32", "int8"
"""The smallest schemes whose measured cost is within 1.6 % of perplexity, with calibration and without."""


def quantize(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model folder, installed model, or folder of a run.")],
    target: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Folder to write; must not exist.", show_default=False)
    ] = None,
    matrices: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEME",
            help="int4:32|64|128|channel, int8, bf16 or fp32.  "
            f"\\[default: {CALIBRATED} with --calibrate, else {PLAIN}]",
            show_default=False,
        ),
    ] = None,
    embedding: Annotated[str, typer.Option(metavar="SCHEME", help="The same, of embeddings and output head.")] = "int8",
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the new model.", show_default=False)
    ] = None,
    chunk_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Chunk length that `precog index` takes with it, see `precog horizon`.  \\[default: the source's]",
            min=MIN_MAX_TOKENS,
            max=MOST_CHUNK_TOKENS,
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Text whose activations INT4 rounding makes up for (.txt, .jsonl).", show_default=False
        ),
    ] = None,
    calibrate_tokens: Annotated[int, typer.Option(metavar="N", help="Of that text.", min=256)] = 16384,
    compare: Annotated[
        str | None,
        typer.Option(metavar="S,S,…", help="Measure these schemes instead, and write nothing.", show_default=False),
    ] = None,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Held-out text: perplexity.", show_default=False)
    ] = None,
    text_tokens: Annotated[int, typer.Option(metavar="N", help="Of that text.", min=2)] = 20000,
    carried: Annotated[
        bool,
        typer.Option(
            "--carried/--each-segment", help="Perplexity over whole documents, or over segments of 256 tokens alone."
        ),
    ] = True,
    squad: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SQuAD v1.1 file: EM and F1.", show_default=False)
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Questions; all when left out.", min=1)] = None,
    seed: options.Seed = 0,
    packed: Annotated[
        bool, typer.Option("--packed", help="Measure with packed weights and BF16 products, not in FP32.")
    ] = False,
    shard_mb: Annotated[int, typer.Option(metavar="N", help="No weight file is larger.", min=1)] = 47,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Store a model's weights in fewer bits, or compare ways to.

    Left to itself it takes the smallest form that was measured to raise perplexity by less than 1.6 %.

    That is INT4 in groups of 32 with --calibrate (1.1 %), and INT8 without (0.0 %; INT4 costs 2.9 % there).
    """
    import torch

    from precog.backbones.tenns.quantise import SCHEMES
    from precog.backbones.tenns.target import refuse_existing
    from precog.bench.machine import Machine, git_commit, versions
    from precog.evaluate.perplexity import read_token_documents
    from precog.evaluate.quantisation import Comparison, Trial
    from precog.evaluate.squad_data import read_questions, sample_questions
    from precog.text.tokenizer import load_mistral_tokenizer
    from precog.train.quantise import calibration_rows, check_table_fits, quantise

    settings = resolve({"threads": threads})
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    if (target is None) == (compare is None):
        raise UsageError("either OUT or --compare", given="both" if target else "neither")
    if name is not None:
        check_name(name)
    if target is not None:
        refuse_existing(target)
    chosen = matrices if matrices is not None else PLAIN if calibrate is None else CALIBRATED
    schemes = [scheme.strip() for scheme in compare.split(",")] if compare is not None else [chosen]
    for scheme in (*schemes, embedding):
        if scheme not in SCHEMES:
            raise UsageError("no such quantisation", given=scheme, expected=", ".join(SCHEMES))
    source = _source(model)
    if target is not None:
        refuse_existing(target, source)
        check_table_fits(source, embedding, shard_mb * 1_000_000)
    tokenizer = load_mistral_tokenizer()
    rows = None
    if calibrate is not None:
        rows = calibration_rows(read_token_documents(calibrate, tokenizer, calibrate_tokens), tokenizer.boundary_id)
    measured = text is not None or squad is not None or compare is not None
    trial = Trial(
        documents=read_token_documents(text, tokenizer, text_tokens) if text is not None else (),
        questions=sample_questions(read_questions(squad), limit, seed) if squad is not None else (),
        packed=packed,
        carried=carried,
        timed=measured,
    )
    comparison = Comparison(tokenizer, trial, lambda what: err.print(f"[dim]{shown(what)} …[/]"))
    machine = Machine.here()
    comparison.add_source(source)
    written: str | None = None
    for scheme in schemes:
        err.print(f"[dim]rounding to {shown(scheme)} …[/]")
        made = quantise(source, matrices=scheme, embedding=embedding, calibration=rows)
        if target is not None:
            card = made.write(
                target,
                name=name or f"{made.card.name}-{scheme.replace(':', '-')}",
                chunk_tokens=chunk_tokens,
                shard_bytes=shard_mb * 1_000_000,
            )
            written = card.name
        comparison.add(made, calibrated=rows is not None and scheme.startswith("int4"))
    report: dict[str, object] = {
        "source": str(source),
        "written": None if target is None else {"folder": str(target), "name": written},
        "rows": comparison.rows,
        "computed": "packed" if packed else "float32",
        "carried": carried,
        "questions": len(trial.questions),
        "machine": machine.to_json(),
        "versions": versions(),
        "git_commit": git_commit(),
    }
    if as_json:
        print_json(report)
    else:
        _print(report)
    return 0


def _source(model: str) -> Path:
    """A model folder; that of a training run stands for the model the run made."""
    inside = expanded(model) / "model"
    if not (expanded(model) / "precog.json").exists() and (inside / "precog.json").exists():
        return inside
    return find_model(model)


def _print(report: dict[str, object]) -> None:
    rows = cast(list[dict[str, object]], report["rows"])
    for row in rows[1:]:
        kinds = cast(list[dict[str, object]], row["kinds"])
        if kinds:
            table = Table("matrices", "scheme", "weights", "bytes", "relative error", title=str(row["matrices"]))
            for kind in kinds:
                table.add_row(
                    str(kind["name"]).removesuffix(".weight"),
                    str(kind["scheme"]),
                    f"{kind['parameters']:,}",
                    human_bytes(cast(int, kind["num_bytes"])),
                    f"{cast(float, kind['relative_error']):.4f}",
                )
            out.print(table)
    table = Table("matrices", "tables", "bytes", "ppl", "change", "EM", "F1", "tok/s", "packed")
    for row in rows:
        perplexity = cast(dict[str, float], row.get("perplexity", {}))
        squad = cast(dict[str, float], row.get("squad", {}))
        rates = cast(dict[str, float], row.get("tokens_per_sec", {}))
        change = ""
        if perplexity and row is not rows[0]:
            change = f"{100 * perplexity['change']:+.2f} ± {100 * perplexity['change_half_interval']:.2f} %"
        table.add_row(
            str(row["matrices"]) + (" calibrated" if row["calibrated"] else ""),
            str(row["embedding"]),
            human_bytes(cast(int, row["bytes"])),
            f"{perplexity['value']:.3f}" if perplexity else "",
            change,
            f"{squad['em']:.1f}" if squad else "",
            f"{squad['f1']:.1f}" if squad else "",
            f"{rates['float32']:.1f}" if "float32" in rates else "",
            f"{rates['packed']:.1f}" if "packed" in rates else "",
        )
    out.print(table)
    if report["written"]:
        folder = cast(dict[str, str], report["written"])["folder"]
        out.print(f"written: `precog ask … --model {shown(folder)}` uses it")
