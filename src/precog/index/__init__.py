"""Keys and words in DRAM: exact, approximate, lexical, and both at once; the only room that imports faiss."""

from precog.config import Retrieval
from precog.index.dense import DenseIndex
from precog.index.hybrid import HybridIndex, IndexSource, SearchHit, Worded
from precog.index.index_file import StaleIndexError
from precog.index.lexical import LexicalIndex

__all__ = [
    "DenseIndex",
    "HybridIndex",
    "IndexSource",
    "LexicalIndex",
    "Retrieval",
    "SearchHit",
    "StaleIndexError",
    "Worded",
]
