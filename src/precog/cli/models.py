"""``precog models``: what can be named with --model."""

from pathlib import Path
from typing import Annotated

import typer

from precog.backbones.kind import kind_of
from precog.backbones.registry import installed_models
from precog.backbones.supported import FAMILIES, Family
from precog.backbones.tenns.checkpoint import read_card
from precog.cli import options
from precog.cli.output import human_bytes, out, print_json, shown
from precog.errors import ModelError
from precog.hub import download

FLOAT16_BYTES = 2


def models(
    hub_id: Annotated[
        str | None,
        typer.Option(
            "--download",
            metavar="ORG/NAME[@REVISION]",
            help="First fetch this model of the Hugging Face hub, at one commit, into its local cache. Without this "
            "option nothing ever opens a connection.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """List the installed models, and the architectures that can be opened from a folder, a file or a hub id."""
    if hub_id is not None:
        folder = download(hub_id)
        if not as_json:
            out.print(f"[bold]{shown(hub_id)}[/] at commit {folder.name}: --model {shown(hub_id)}")
    rows = [_installed(name, folder) for name, folder in installed_models().items()]
    if as_json:
        print_json({"models": rows, "supported": [family.to_json() for family in FAMILIES]})
        return 0
    for row in rows:
        _show(row)
    if not rows:
        out.print("no model is installed")
    out.print("\n--model also takes a folder, a file, or a hub id in the local cache, of these architectures:")
    for family in FAMILIES:
        _show_family(family)
    return 0


def _installed(name: str, folder: Path) -> dict[str, object]:
    row: dict[str, object] = {"name": name, "folder": str(folder), "error": None}
    try:
        kind, _ = kind_of(folder)
        if kind != "tenns":
            return {**row, "title": name, "backbone": kind, "disk_bytes": _disk_bytes(folder)}
        card, config = read_card(folder)
    except ModelError as error:
        return {**row, "error": str(error)}
    return {
        **row,
        "title": card.name,
        "backbone": card.backbone,
        "layers": config.layers,
        "width": config.width,
        "state_bytes": config.layers * config.state_reals * FLOAT16_BYTES,
        "chunk_tokens": card.chunk_tokens or None,
        "quantisation": dict(card.quantisation),
        "disk_bytes": _disk_bytes(folder),
    }


def _disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _show(row: dict[str, object]) -> None:
    name = f"[bold]{shown(str(row['name']))}[/]"
    if row["error"]:
        out.print(f"{name} [red]{shown(str(row['error']))}[/]")
        return
    sizes = f"{human_bytes(int(str(row['disk_bytes'])))} on disk"
    if "state_bytes" in row:
        sizes = f"{row['layers']} × {row['width']}, state {human_bytes(int(str(row['state_bytes'])))}, {sizes}"
    if row.get("chunk_tokens"):
        sizes += f", chunks of {row['chunk_tokens']} tokens"
    out.print(f"{name} {sizes}", end="  ")
    out.print(f"[dim]{shown(str(row['folder']))}[/]")


def _show_family(family: Family) -> None:
    needs = "" if family.is_available else f", needs pip install 'precog-ssm\\[{family.extra}]'"
    through = f"through {family.through}" if family.through else "own"
    size = f"{family.example}: {human_bytes(family.example_bytes)} of FP32 state"
    grows = ", grows with the text" if family.grows else ""
    out.print(f"  {family.name:<17} {through}{needs}; {size}{grows}; {', '.join(family.rules)}")
