"""From a question to the segment a model reads: boundary, template, tokens (paper appendix, SQuAD prompt)."""

from precog.backbones.protocol import Backbone
from precog.errors import InputError


def question_segment(backbone: Backbone, question: str, template: str | None = None) -> list[int]:
    """The ids of a question: the boundary and the filled template, tokenised on its own (ERRATA 19).

    Args:
        backbone: whose tokenizer and, by default, whose template is used.
        question: as the user typed it; white space around it is dropped.
        template: another template, holding ``{question}`` once.

    Raises:
        InputError: the question is empty.
    """
    text = question.strip()
    if not text:
        raise InputError("the question is empty", hint="ask something")
    filled = (template or backbone.card.question_template).replace("{question}", text)
    return [*backbone.opening, *backbone.tokenizer.encode(filled)]
