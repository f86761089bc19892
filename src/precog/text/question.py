"""What a question must be before anything is looked for."""

from precog.errors import InputError, UsageError


def check_question(question: str) -> None:
    """Refuses a question that asks nothing, or that no encoding can carry.

    Raises:
        UsageError: it is empty.
        InputError: it is not valid Unicode.
    """
    if not question.strip():
        raise UsageError("the question is empty", given="0 tokens", expected="a question")
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise InputError("the question is not valid Unicode", given=f"character {error.start}") from error
