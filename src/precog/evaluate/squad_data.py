"""SQuAD v1.1 questions from the official JSON or from JSON lines, and reproducible subsets of them."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precog.errors import InputError
from precog.evaluate.subset import check_questions, ids_sha256, sample_questions

__all__ = ["Question", "ids_sha256", "read_questions", "sample_questions"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its gold paragraph and the answers people gave."""

    id: str
    title: str
    context: str
    question: str
    answers: tuple[str, ...]


def read_questions(path: Path) -> list[Question]:
    """Every question of a file, in its order.

    Args:
        path: the official SQuAD v1.1 JSON, or JSON lines with id, title, context, question, answers; gzip allowed.

    Raises:
        InputError: the file is missing, damaged, empty, of another form, or repeats an id.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
        questions = list(_official(text) if _is_official(text) else _lines(text))
    except OSError as error:
        raise InputError("the question file cannot be read", given=path, hint=error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, EOFError, zlib.error) as error:
        raise InputError(
            "this is not a SQuAD v1.1 file",
            given=path,
            expected='{"data": [{"title", "paragraphs"}]}, or JSON lines with id, title, context, question, answers',
        ) from error
    check_questions(questions, path)
    return questions


def _is_official(text: str) -> bool:
    first_line = text.lstrip().split("\n", 1)[0]
    try:
        return "id" not in json.loads(first_line)
    except ValueError:
        return True  # the official object, printed over several lines


def _official(text: str) -> Iterator[Question]:
    for article in json.loads(text)["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                yield _question(
                    asked["id"],
                    article["title"],
                    paragraph["context"],
                    asked["question"],
                    [answer["text"] for answer in asked["answers"]],
                )


def _lines(text: str) -> Iterator[Question]:
    for line in text.split("\n"):
        if line.strip():
            row = json.loads(line)
            yield _question(row["id"], row["title"], row["context"], row["question"], row["answers"])


def _question(id: object, title: object, context: object, question: object, answers: object) -> Question:
    texts = [id, title, context, question, *(answers if isinstance(answers, list) else [])]
    if len(texts) == 4 or not all(isinstance(text, str) for text in texts):
        raise ValueError("a question without text or without answer")
    return Question(str(id), str(title), str(context), str(question), tuple(map(str, texts[4:])))
