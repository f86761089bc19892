"""What to type when states or keys of a corpus are of no use: commands that can be pasted."""

import shlex
from pathlib import Path

CATALOGUE_ANEW = "restore it from a backup, or index the documents again into a new folder"


def reindex_command(corpus: Path, *options: str) -> str:
    """``precog reindex`` for a corpus, quoted for a shell."""
    return shlex.join(["precog", "reindex", "--corpus", str(corpus), *options])


def states_anew(corpus: Path) -> str:
    """The hint of an error about states that are damaged or gone."""
    return f"make every state anew from the stored text: {reindex_command(corpus)}"


def keys_anew(corpus: Path) -> str:
    """The hint of an error about damaged keys."""
    return f"make every key anew from the stored text: {reindex_command(corpus)}"
