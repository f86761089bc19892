"""HotpotQA questions with ten paragraphs each, from the official distractor file or from JSON lines (paper Table 7)."""

from dataclasses import dataclass
from pathlib import Path

from precog.evaluate.question_file import Row, read_rows
from precog.evaluate.subset import check_questions

__all__ = ["OFFICIAL", "REBUILT", "HotpotParagraph", "HotpotQuestion", "read_hotpot"]

KIND = "a HotpotQA file in the distractor setting"
OFFICIAL, REBUILT = "official-distractor", "rebuilt"
_YES_NO = ("yes", "no")


@dataclass(frozen=True, slots=True)
class HotpotParagraph:
    """One of a question's paragraphs.

    Attributes:
        title: of the article it opens.
        text: its sentences, joined.
    """

    title: str
    text: str

    @property
    def full_text(self) -> str:
        """What is read and searched: the title belongs to the paragraph, which often says "it" instead."""
        return f"{self.title}. {self.text}"


@dataclass(frozen=True, slots=True)
class HotpotQuestion:
    """One question, its paragraphs and its answer.

    Attributes:
        id: of the data set.
        question: that is asked.
        answer: a span of a paragraph, or yes or no.
        supporting_titles: of the paragraphs that together hold the answer; empty where the file does not say.
        paragraphs: that are searched, in the file's order.
        setting: ``official-distractor``, or ``rebuilt`` where the paragraphs are others than the official ones.
    """

    id: str
    question: str
    answer: str
    supporting_titles: tuple[str, ...]
    paragraphs: tuple[HotpotParagraph, ...]
    setting: str = OFFICIAL

    @property
    def is_yes_no(self) -> bool:
        """Whether the answer is no span of anything: grounded decoding cannot say it."""
        return self.answer.strip().lower() in _YES_NO


def read_hotpot(path: Path) -> list[HotpotQuestion]:
    """Every question of a file, in its order.

    Args:
        path: the official JSON list (``_id``, ``question``, ``answer``, ``supporting_facts``, ``context`` of
            ``[title, [sentence, …]]``), or JSON lines (``id``, ``question``, ``answer``, ``supporting_titles``,
            ``context`` of ``{"title", "sentences"}``, ``setting``); gzip allowed.

    Raises:
        InputError: the file is missing, damaged, empty, of another form, or repeats an id.
    """
    questions = [_official(row) if "_id" in row.values else _line(row) for row in read_rows(path, KIND)]
    check_questions(questions, path)
    return questions


def _official(row: Row) -> HotpotQuestion:
    titles = []
    for index, fact in enumerate(row.items("supporting_facts")):
        if not (isinstance(fact, list) and fact and isinstance(fact[0], str)):
            row.refuse(f"supporting_facts[{index}]", "[title, number of the sentence]", given=fact)
        titles.append(fact[0])
    paragraphs = []
    for index, entry in enumerate(row.items("context")):
        match entry:
            case [str(title), list(sentences)] if all(isinstance(sentence, str) for sentence in sentences):
                paragraphs.append(HotpotParagraph(title, _joined(sentences)))
            case _:
                row.refuse(f"context[{index}]", "[title, [sentence, …]]", given=entry)
    return _question(row, row.text("_id"), titles, paragraphs, OFFICIAL)


def _line(row: Row) -> HotpotQuestion:
    paragraphs = [
        HotpotParagraph(entry.text("title"), _joined(entry.texts("sentences"))) for entry in row.objects("context")
    ]
    setting = row.text("setting")
    titles = [] if row.values.get("supporting_titles") is None else row.texts("supporting_titles")
    return _question(row, row.text("id"), titles, paragraphs, OFFICIAL if setting.startswith(OFFICIAL) else REBUILT)


def _question(row: Row, id_: str, titles: list[str], paragraphs: list[HotpotParagraph], setting: str) -> HotpotQuestion:
    known = {paragraph.title for paragraph in paragraphs}
    if not paragraphs or not all(paragraph.text for paragraph in paragraphs):
        row.refuse("context", "paragraphs with text", given=[paragraph.title for paragraph in paragraphs])
    strange = [title for title in titles if title not in known]
    if strange:
        row.refuse("context", "every supporting paragraph among them", given=f"without {strange[0]!r}")
    return HotpotQuestion(
        id_,
        row.text("question"),
        row.text("answer"),
        tuple(dict.fromkeys(titles)),
        tuple(paragraphs),
        setting,
    )


def _joined(sentences: list[str]) -> str:
    """Sentences of the official file open with the space that parts them; those of others may not."""
    return " ".join(" ".join(sentences).split())
