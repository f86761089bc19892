"""A few pages of English in the public domain, for measurements that need a text and were given none.

Three entries of The World Factbook (Central Intelligence Agency), the first sections of the Constitution
of the United States, and the Gettysburg Address.
"""

from pathlib import Path

SAMPLE_FILE = Path(__file__).parent / "data" / "sample.txt"


def sample_text() -> str:
    """The whole sample, about 7,500 tokens."""
    return SAMPLE_FILE.read_text(encoding="utf-8")
