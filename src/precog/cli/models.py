"""``precog models``: what can be named with --model."""

from precog.backbones.registry import installed_models
from precog.backbones.tenns.checkpoint import read_card
from precog.cli import options
from precog.cli.output import human_bytes, out, print_json, shown
from precog.errors import ModelError

FLOAT16_BYTES = 2


def models(as_json: options.Json = False) -> int:
    """List the installed models."""
    rows: list[dict[str, object]] = []
    for name, folder in installed_models().items():
        row: dict[str, object] = {"name": name, "folder": str(folder), "error": None}
        try:
            card, config = read_card(folder)
            row |= {
                "title": card.name,
                "backbone": card.backbone,
                "layers": config.layers,
                "width": config.width,
                "state_bytes": config.layers * config.state_reals * FLOAT16_BYTES,
                "chunk_tokens": card.chunk_tokens or None,
                "quantisation": dict(card.quantisation),
                "disk_bytes": sum(path.stat().st_size for path in folder.glob("model*.safetensors")),
            }
        except ModelError as error:
            row["error"] = str(error)
        rows.append(row)
    if as_json:
        print_json({"models": rows})
        return 0
    if not rows:
        out.print("no model is installed; --model takes a folder, too")
    for row in rows:
        if row["error"]:
            out.print(f"[bold]{shown(str(row['name']))}[/] [red]{shown(str(row['error']))}[/]")
            continue
        sizes = f"state {human_bytes(int(str(row['state_bytes'])))}, {human_bytes(int(str(row['disk_bytes'])))} on disk"
        if row["chunk_tokens"]:
            sizes += f", chunks of {row['chunk_tokens']} tokens"
        out.print(f"[bold]{shown(str(row['name']))}[/] {row['layers']} × {row['width']}, {sizes}", end="  ")
        out.print(f"[dim]{shown(str(row['folder']))}[/]")
    return 0
