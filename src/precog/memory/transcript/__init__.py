"""Files of conversations ▸ transcripts, and the project's own format of them."""

from precog.memory.transcript.locomo import CATEGORIES, LocomoQuestion, locomo_questions
from precog.memory.transcript.reading import FORMATS, read_transcript, transcript_of
from precog.memory.transcript.transcript import Session, Transcript
from precog.memory.transcript.writing import write_jsonl

__all__ = [
    "CATEGORIES",
    "FORMATS",
    "LocomoQuestion",
    "Session",
    "Transcript",
    "locomo_questions",
    "read_transcript",
    "transcript_of",
    "write_jsonl",
]
