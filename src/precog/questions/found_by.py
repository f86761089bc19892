"""What a passage is found by: the text that its keys are of, and the words that are counted.

A title helps both. Questions made from a passage help as words where people ask in the words of the text, and harm
where they do not; as keys of their own they cost more than they find (docs/LOG.md, 2026-11-29).
"""

from precog.errors import UsageError
from precog.questions.asking import questions_of

__all__ = ["KEY_KINDS", "MAX_QUESTIONS", "check_keys", "key_text", "words_text"]

KEY_KINDS = ("text", "title", "questions")
MAX_QUESTIONS = 16


def check_keys(kind: object) -> None:
    """Refuses what is none of `KEY_KINDS`; None asks for nothing.

    Raises:
        UsageError: it is none.
    """
    if kind is not None and kind not in KEY_KINDS:
        raise UsageError("--keys: no such choice", given=kind, expected=", ".join(KEY_KINDS))


def key_text(kind: str, text: str, *, title: str, context: str = "") -> str:
    """The text that a passage has keys of.

    Args:
        kind: ``text`` for the passage in its context; else it stands after its title where it has no context.
        text: the passage.
        title: of what it stands in, such as an article; "" where there is none.
        context: what is read before it; its first line is the path of headings.
    """
    return context + text if kind == "text" or context or not title else f"{title}\n{text}"


def words_text(kind: str, text: str, *, title: str, context: str = "") -> str:
    """The text whose words are counted: that of the keys, and for ``questions`` the questions made from the passage.

    Up to `MAX_QUESTIONS` of them, the same for the same passage whenever it is indexed. Arguments as of `key_text`.
    """
    own = key_text(kind, text, title=title, context=context)
    if kind != "questions":
        return own
    return "\n".join([own, *questions_of(text, context.partition("\n")[0] or title, MAX_QUESTIONS)])
