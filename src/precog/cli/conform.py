"""``precog conform``: whether the states of a model can be trusted, in every way that they are used."""

import multiprocessing
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import torch
import typer

from precog.backbones.registry import find_model, load_backbone
from precog.backbones.tiny import NAMES, make_tiny
from precog.cli import options
from precog.cli.output import human_bytes, out, print_json, shown
from precog.cli.verify import Steps
from precog.config import resolve
from precog.engine.composed import rules_of
from precog.engine.conform import Table, conform
from precog.errors import ModelError, PrecogError, UsageError
from precog.state import CODECS


def conform_command(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Model folder, file or name.", show_default=False)
    ] = None,
    tiny: Annotated[
        str | None,
        typer.Option(
            metavar="all|NAME,…",
            help=f"Tiny models with random weights, made on the spot instead: {', '.join(NAMES)}.",
            show_default=False,
        ),
    ] = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Cut texts everywhere, store the state, read on, and compare with one pass over the whole text.

    The judge is the pass of the library that runs the model, which knows nothing of states. One and many tokens at a
    time, batches, unequal lengths, another process, a hundred injections, two states by turns; at FP32.
    """
    settings = resolve({"model": model, "device": device, "threads": threads})
    if (model is None) == (tiny is None):
        raise UsageError("which model?", expected="MODEL, or --tiny all", hint="see `precog models`")
    names = list(NAMES) if tiny == "all" else (tiny or "").split(",")
    rows: list[dict[str, object]] = []
    with ExitStack() as stack, Steps("loading the model") as steps:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="precog-tiny-")))
        for name in names if tiny is not None else [model or ""]:
            steps.say(name)
            try:
                path = find_model(model) if tiny is None else make_tiny(name, folder / name)
                rows.append(_row(name, path, settings.device, settings.threads))
            except PrecogError as error:
                if tiny is None or isinstance(error, UsageError):
                    raise
                rows.append({"name": name, "exact": False, "error": error.to_json()})
            if not as_json:
                _show(rows[-1])
    if as_json:
        print_json({"models": rows})
    return 0 if all(row.get("exact") or row.get("claims_exact") is False for row in rows) else 1


def _row(name: str, path: Path, device: str, threads: int | None) -> dict[str, object]:
    backbone = load_backbone(path, device=device, threads=threads, dtype="float32")
    spec = backbone.spec

    def elsewhere(data: bytes, num_tokens: int, ids: Sequence[int]) -> torch.Tensor:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return torch.tensor(pool.apply(_read_on, (str(path), device, threads, data, num_tokens, list(ids))))

    table: Table = conform(backbone, elsewhere=elsewhere)
    return {
        "name": name,
        "backbone": backbone.card.backbone,
        "fingerprint": backbone.fingerprint,
        "exact": table.is_exact,
        "max_abs_logit_error": table.max_abs_logit_error,
        "lost_state_logit_error": table.lost,
        "state_bytes": CODECS["fp16"].encoded_bytes(spec),
        "state_bytes_fp32": CODECS["fp32"].encoded_bytes(spec),
        "averages": spec.averages,
        "composition_rules": list(rules_of(backbone)),
        "checks": [
            {"name": check.name, "error": check.error, "bound": check.bound, "ok": check.ok} for check in table.checks
        ],
        "error": None,
    }


def _read_on(
    path: str, device: str, threads: int | None, data: bytes, num_tokens: int, ids: list[int]
) -> list[list[float]]:
    """In a process of its own: the scores after every token read from a stored state."""
    backbone = load_backbone(path, device=device, threads=threads, dtype="float32")
    state = CODECS["fp32"].decode(data, backbone.spec, num_tokens=num_tokens)
    rows: list[list[float]] = backbone.prefill_logits(ids, state)[1].tolist()
    return rows


def _show(row: dict[str, object]) -> None:
    error = row.get("error")
    if isinstance(error, dict):
        said = ModelError(error["message"], given=error["given"], hint=error["hint"])
        out.print(f"[bold]{shown(str(row['name']))}[/] [red]{shown(str(said))}[/]")
        return
    verdict = "[green]exact[/]" if row["exact"] else "[red]not exact[/]"
    sizes = f"state {human_bytes(int(str(row['state_bytes'])))} (FP16)"
    rules = row["composition_rules"]
    assert isinstance(rules, list)
    out.print(
        f"[bold]{shown(str(row['name']))}[/] {verdict}, max |Δlogit| {row['max_abs_logit_error']:.1e} "
        f"(without the state {row['lost_state_logit_error']:.1e}), {sizes}, {', '.join(rules)}"
    )
    checks = row["checks"]
    assert isinstance(checks, list)
    for check in checks:
        if not check["ok"]:
            out.print(f"  [red]{shown(check['name'])}: {check['error']:.2e}, at most {check['bound']:.0e}[/]")
