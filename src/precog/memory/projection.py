"""Keys laid out on a plane, for maps to look at: distances on it are not those between keys."""

from typing import Literal

import numpy as np
from jaxtyping import Float32

from precog.errors import InputError
from precog.memory.keyed import one_thread, sklearn_part

__all__ = ["Projection", "note_on", "project"]

Projection = Literal["tsne", "pca"]
_LEAST_FOR_PCA = 3
_LEAST_FOR_TSNE = 10
_PERPLEXITY = 30.0


def project(
    keys: Float32[np.ndarray, "N E"], method: Projection = "tsne", *, seed: int = 0
) -> Float32[np.ndarray, "N 2"]:
    """One point per key; the same keys in the same order give the same points.

    Args:
        keys: unit norm.
        method: "tsne" keeps neighbours together; "pca" keeps the two widest directions. Fewer than ten keys are always
            laid out by "pca".
        seed: of t-SNE.

    Raises:
        InputError: there is no such method.
        UsageError: scikit-learn is not installed.
    """
    if method not in ("tsne", "pca"):
        raise InputError("there is no such projection", given=method, expected="tsne or pca")
    if len(keys) < _LEAST_FOR_PCA:
        return np.stack([np.arange(len(keys)), np.zeros(len(keys))], axis=1).astype(np.float32)
    wide = keys.astype(np.float64)
    if not np.ptp(wide, axis=0).any():
        # one place for all: PCA divides by their spread, and t-SNE that begins at NaN reads memory that is not its own
        return np.zeros((len(keys), 2), np.float32)
    if method == "pca" or len(keys) < _LEAST_FOR_TSNE:
        with one_thread():
            points = sklearn_part("decomposition").PCA(2, svd_solver="full").fit_transform(wide)
        return np.asarray(points, dtype=np.float32)
    perplexity = min(_PERPLEXITY, (len(keys) - 1) / 3)
    model = sklearn_part("manifold").TSNE(
        2, perplexity=perplexity, metric="cosine", init="pca", random_state=seed % 2**32, n_jobs=1
    )
    with one_thread():
        return np.asarray(model.fit_transform(wide), dtype=np.float32)


def note_on(num_keys: int, method: Projection) -> str:
    """What whoever looks at a map of so few keys has to know; empty where they are enough."""
    if num_keys < _LEAST_FOR_PCA:
        return "too few to lay out: places mean nothing"
    if method == "tsne" and num_keys < _LEAST_FOR_TSNE:
        return "too few for t-SNE: laid out by PCA"
    return ""
