"""Natural Questions, long answers as passages: the official simplified file, or QED's JSON lines (paper Table 8)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from precog.evaluate.question_file import Row, read_rows
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import check_questions

__all__ = ["read_natural_questions"]

KIND = "a Natural Questions file, simplified or of QED"
_TAG = re.compile(r"</?[A-Za-z][^\s>]*>")
_BEFORE = re.compile(r" ([,.;:!?%)\]}]|'s\b|n't\b)")
_AFTER = re.compile(r"([(\[{]) ")
_QUOTED = re.compile(r"`` (.*?) ''")


def read_natural_questions(path: Path) -> list[Question]:
    """Every question of a file that has a long and a short answer, in its order.

    The long answer is the passage, without HTML tags, in words as people write them; where that would part it from its
    short answers, with the spaces of the file's tokens.

    Args:
        path: the official simplified JSON lines (``document_text`` of tokens parted by spaces, ``annotations``), or
            those of QED (``context``, ``context_detok``, ``answers``); gzip allowed.

    Raises:
        InputError: the file is missing, damaged, of another form, repeats an id, or no question has both answers.
    """
    questions = [
        question
        for row in read_rows(path, KIND)
        for question in (_official(row) if "document_text" in row.values else _qed(row))
    ]
    check_questions(questions, path)
    return questions


def _qed(row: Row) -> Iterator[Question]:
    answers = [answer for answer in row.texts("answers") if answer.strip()]
    plain, detokenised = row.text("context"), row.text("context_detok")
    question, title = row.text("question"), row.text("title", may_be_empty=True)
    if answers:
        yield Question(row.text("id"), title, _holding(answers, detokenised, plain), question, tuple(answers))


def _official(row: Row) -> Iterator[Question]:
    words = row.text("document_text").split(" ")
    question = row.text("question_text")
    id_ = row.values.get("example_id")
    if not isinstance(id_, int | str) or isinstance(id_, bool):
        row.refuse("example_id", "a number or a text", given=id_)
    chosen: tuple[int, int] | None = None
    answers: list[str] = []
    for annotation in row.objects("annotations"):
        long = annotation.inner("long_answer")
        spans = [_span(entry, len(words)) for entry in annotation.objects("short_answers")]
        if long.number("start_token") < 0 or not spans:
            continue  # this person found no paragraph, or no answer in few words
        passage = _span(long, len(words))
        if chosen is None:
            chosen = passage
        if passage == chosen:
            answers += [_written(words[start:end]) for start, end in spans]
    answers = [answer for answer in dict.fromkeys(answers) if answer]
    if chosen is None or not answers:
        return
    kept = _without_tags(words[slice(*chosen)])
    if kept:
        title = row.values.get("document_title")
        context = _holding(answers, _written(kept), " ".join(kept))
        yield Question(str(id_), title if isinstance(title, str) else "", context, question, tuple(answers))


def _span(row: Row, num_words: int) -> tuple[int, int]:
    start, end = row.number("start_token"), row.number("end_token")
    if not 0 <= start < end <= num_words:
        row.refuse("end_token", f"a span within {num_words} tokens of document_text", given=[start, end])
    return start, end


def _without_tags(words: Sequence[str]) -> list[str]:
    return [word for word in words if word and not _TAG.fullmatch(word)]


def _written(words: Sequence[str]) -> str:
    """Tokens as people write them: marks join the word that they belong to."""
    text = _QUOTED.sub(r'"\1"', " ".join(_without_tags(words)))
    return _AFTER.sub(r"\1", _BEFORE.sub(r"\1", text)).replace(" -- ", " – ")


def _holding(answers: Sequence[str], *texts: str) -> str:
    """The first of the texts that holds an answer; the first of all where none does."""
    return next((text for text in texts if any(answer in text for answer in answers)), texts[0])
