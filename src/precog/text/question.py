"""What a question is, and what it must be before anything is looked for."""

import re

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


_VERB = r"(am|is|are|was|were|do|does|did|have|has|had|can|could|will|would|should|shall|may|might)"
_SOMEBODY = (
    r"(i|you|he|she|it|we|they|my|your|his|her|its|our|their|there|the|this|that|these|those|a|an|any|anyone|anybody)"
)
_ASKS = re.compile(
    rf"((who|whom|whose|what|when|where|why|how)(\s+{_VERB}\b|[’']s\b)|"
    rf"(what|which|whose|how)\s+\w+(\s+\w+)?\s+{_VERB}\s+{_SOMEBODY}\b|"
    rf"{_VERB}\s+{_SOMEBODY}\b|"
    r"(please\s+)?(tell|remind|show)\s+me\b)",
    re.IGNORECASE,
)


_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”’)\]]*\s+|(?<=[？。！])")
_MOST_TOLD = 8


def is_mostly_question(text: str) -> bool:
    """Whether a turn ends by asking and tells next to nothing besides: "Congratulations! What breed is he?"

    At most eight words stand outside its questions; whoever tells more before he asks has said something.
    """
    sentences = [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]
    told = [sentence for sentence in sentences if not is_question(sentence)]
    return bool(sentences) and is_question(sentences[-1]) and sum(len(one.split()) for one in told) <= _MOST_TOLD


def is_question(text: str) -> bool:
    """Whether a text asks: by its mark, or, where that is left out, by how English questions begin.

    "When I was in Rome it rained." tells something: a question word asks where a verb follows it at once.
    """
    said = text.strip()
    return said.endswith(("?", "？")) or _ASKS.match(said) is not None
