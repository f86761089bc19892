"""Models of the Hugging Face hub: found in the local cache, and fetched only when somebody asks for it.

A revision is pinned: the commit that was fetched is what is opened from then on, whatever the hub says later.
"""

import os
import re
from pathlib import Path

from precog.errors import ModelError, UsageError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILES = ["*.json", "*.safetensors", "tokenizer*", "*.txt", "LICENSE*", "README.md"]  # never pickles, never code


def is_hub_id(name: str) -> bool:
    """Whether a name has the form ``organisation/model`` or ``organisation/model@revision``."""
    return _HUB_ID.fullmatch(name.partition("@")[0]) is not None


def cached(name: str) -> Path | None:
    """The folder of a hub model in the local cache; None where it is not there. Nothing is ever fetched."""
    hub_id, _, revision = name.partition("@")
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / ("models--" + hub_id.replace("/", "--"))
    if not _COMMIT.fullmatch(revision):
        try:
            revision = (folder / "refs" / (revision or "main")).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError, ValueError):
            return None
    snapshot = folder / "snapshots" / revision
    return snapshot if snapshot.is_dir() else None


def download(name: str) -> Path:
    """Fetch a hub model into the local cache, at one commit: weights as safetensors, configuration, tokenizer.

    Args:
        name: ``organisation/model``, or ``organisation/model@revision``; the present commit without a revision.

    Returns:
        The snapshot's folder, named by its commit.

    Raises:
        UsageError: it is no hub id.
        ModelError: ``huggingface_hub`` is not installed, there is no such model or revision, or the hub is not there.
    """
    if not is_hub_id(name):
        raise UsageError("--download: this is no hub id", given=name, expected="organisation/model[@revision]")
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError as error:
        hint = "pip install 'precog-ssm[hf]'"
        raise ModelError(
            "downloading needs a package that is not installed", given="huggingface_hub", hint=hint
        ) from error
    hub_id, _, revision = name.partition("@")
    try:
        commit = HfApi().model_info(hub_id, revision=revision or None).sha
        return Path(snapshot_download(hub_id, revision=commit, allow_patterns=_FILES))
    except Exception as error:  # the library has a tree of its own for networks, HTTP and files
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"the model cannot be downloaded: {reason}", given=name, hint="is the hub reachable?"
        ) from error
