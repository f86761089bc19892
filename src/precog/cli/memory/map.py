"""``precog memory map``: a picture of what a memory holds."""

from pathlib import Path
from typing import Annotated

import typer

from precog import figures
from precog.cli import options
from precog.cli.memory.notes import tell
from precog.cli.output import counted, out, print_json, shown
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.memory.damage import damage_of
from precog.memory.keyed import sklearn_part
from precog.memory.made_with import prototypes_of
from precog.memory.place import existing_folder
from precog.memory.projection import Projection
from precog.store.memory import MemoryStore


def draw(
    user: options.User,
    target: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture to write, a .png or .svg file.")],
    domain: Annotated[
        str | None,
        typer.Option(metavar="D", help="Draw only this domain.  \\[default: all of them]", show_default=False),
    ] = None,
    method: Annotated[str, typer.Option(metavar="tsne|pca", help="How the keys are laid out in the plane.")] = "tsne",
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> int:
    """Draw the domains with their sub-clusters, the others, and the groups that emerge; no model is needed."""
    from precog.memory.panels import panels_json, panels_of

    if method not in ("tsne", "pca"):
        raise UsageError("there is no such projection", given=method, expected="tsne or pca")
    target = expanded(target)
    figures.check_target(target)
    sklearn_part("cluster")
    projection: Projection = "tsne" if method == "tsne" else "pca"
    with MemoryStore.open(existing_folder(resolve({}).home, user)) as store:
        panels = panels_of(store, prototypes_of(store), domain, projection=projection, seed=seed)
        damage = damage_of(store)
    tell(damage)
    figures.memory_map(
        panels, target, title=f"What a memory holds, by meaning ({'t-SNE' if projection == 'tsne' else 'PCA'})"
    )
    drawn = {panel.title: len(panel.labels) for panel in panels}
    if as_json:
        print_json({"file": str(target), **panels_json(panels), **damage.to_json()})
        return 0
    told = f"{counted(sum(drawn.values()), 'deposit')} in {counted(len(drawn), 'domain')}"
    out.print(f"[bold]drawn[/] {told}: {shown(str(target))}")
    return 0
