"""SQuAD v1.1 questions from the official JSON or from JSON lines, and reproducible subsets of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precog.evaluate.question_file import Row, read_rows, whole_file
from precog.evaluate.subset import check_questions, ids_sha256, sample_questions

__all__ = ["Question", "ids_sha256", "read_questions", "sample_questions"]

KIND = "a SQuAD v1.1 file"


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
    whole = whole_file(path, KIND)
    questions = [_line(row) for row in read_rows(path, KIND)] if whole is None else list(_official(whole))
    check_questions(questions, path)
    return questions


def _official(whole: Row) -> Iterator[Question]:
    for article in whole.objects("data"):
        title = article.text("title", may_be_empty=True)
        for paragraph in article.objects("paragraphs"):
            context = paragraph.text("context", may_be_empty=True)
            for asked in paragraph.objects("qas"):
                answers = [answer.text("text", may_be_empty=True) for answer in asked.objects("answers")]
                yield _question(asked, title, context, answers)


def _line(row: Row) -> Question:
    title, context = (row.text(field, may_be_empty=True) for field in ("title", "context"))
    return _question(row, title, context, row.texts("answers"))


def _question(row: Row, title: str, context: str, answers: list[str]) -> Question:
    if not answers:
        row.refuse("answers", "at least one answer", given=answers)
    question = row.text("question", may_be_empty=True)
    return Question(row.text("id", may_be_empty=True), title, context, question, tuple(answers))
