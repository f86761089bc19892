"""Messages ▸ what the model reads before a question, and the question.

A question and its answer are one segment, as the model met them in training; whatever else was said before the last
question is a text of its own, read as a document is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from precog.backbones.protocol import Backbone
from precog.engine import question_segment
from precog.errors import InputError, UsageError
from precog.server.wire import Text, Theirs

Role = Literal["system", "user", "assistant"]
ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""Roles of messages ▸ what the model knows them as."""
_TEXT_PARTS = ("text", "input_text", "output_text")


class Part(Theirs):
    """A part of a message; only text is read."""

    type: Text = Field(json_schema_extra={"enum": list(_TEXT_PARTS)}, examples=["text"])
    text: Text | None = None


class Message(Theirs):
    """One message."""

    role: Text = Field(json_schema_extra={"enum": list(ROLES)}, examples=["user"])
    content: Text | Annotated[list[Part], Field(max_length=256)] | None = Field(
        default=None, examples=["Who found radium?"]
    )
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None

    @property
    def turn(self) -> "Turn":
        """What is said in it.

        Raises:
            UsageError: something else than text is.
        """
        if self.role not in ROLES:
            expected = ", ".join(ROLES)
            raise UsageError("no message of this role can be read", given=self.role[:40], expected=expected)
        if self.tool_calls or self.function_call or self.audio:
            raise UsageError("a message holds something else than text", expected="content alone")
        if isinstance(self.content, list):
            return Turn(ROLES[self.role], "\n".join(map(_text_of, self.content)))
        return Turn(ROLES[self.role], self.content or "")


def _text_of(part: Part) -> str:
    if part.type not in _TEXT_PARTS or part.text is None:
        expected = "text parts: this model reads nothing else"
        raise UsageError("a message holds something else than text", given=part.type[:40], expected=expected)
    return part.text


@dataclass(frozen=True)
class Turn:
    """What somebody said.

    Attributes:
        role: who.
        text: what.
    """

    role: Role
    text: str


@dataclass(frozen=True)
class Conversation:
    """What was said, and what is asked.

    Attributes:
        turns: before the question, the first one first; none of them is blank.
        question: the last thing the user said.
    """

    turns: tuple[Turn, ...]
    question: str

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> "Conversation":
        """The last thing that the user says is the question; instructions after it are read before it.

        Raises:
            InputError: the user says nothing, or somebody answered already.
        """
        last = next((number for number in reversed(range(len(turns))) if turns[number].role == "user"), None)
        if last is None:
            raise InputError("there is no question", expected="a message of the user")
        if any(turn.role == "assistant" for turn in turns[last + 1 :]):
            raise InputError("the last question is answered already", expected="a message of the user at the end")
        question = turns[last].text
        if not question.strip():
            raise InputError("the question is empty", hint="ask something")
        before = (*turns[:last], *turns[last + 1 :])
        return cls(tuple(turn for turn in before if turn.text.strip()), question)

    def opening(self, backbone: Backbone) -> list[int]:
        """The segments that are read before the question."""
        return segments(backbone, self.turns)


def segments(backbone: Backbone, turns: Sequence[Turn]) -> list[int]:
    """Ids of turns as they are read, each segment with its opening."""
    ids: list[int] = []
    number = 0
    while number < len(turns):
        turn = turns[number]
        following = turns[number + 1] if number + 1 < len(turns) else None
        if turn.role == "user" and following is not None and following.role == "assistant":
            ids += answered_segment(backbone, turn.text, following.text)
            number += 2
        else:
            ids += backbone.reading(backbone.tokenizer.encode(turn.text.strip()))
            number += 1
    return ids


def answered_segment(backbone: Backbone, question: str, answer: str) -> list[int]:
    """Ids of a question and, in the same segment, its answer, set off by a space as the model says it."""
    tokenizer = backbone.tokenizer
    said = tokenizer.encode(answer.strip()) if answer.strip() else []
    if said and not tokenizer.token_bytes(said[0]).startswith(b" "):
        said = tokenizer.encode(" " + answer.strip())
    return [*question_segment(backbone, question), *said]
