"""Text around chunks and questions, from a file of the user's: what a model was trained to expect."""

import json
from dataclasses import dataclass
from pathlib import Path

from precog.errors import ModelError

_KEYS = ("chunk", "question")


@dataclass(frozen=True)
class Template:
    """Text around a chunk, holding ``{chunk}`` once, and around a question, holding ``{question}`` once.

    Attributes:
        chunk: None to keep the model's own.
        question: None to keep the model's own.
    """

    chunk: str | None = None
    question: str | None = None

    @classmethod
    def read(cls, path: Path) -> "Template":
        r"""A template from a JSON file such as ``{"chunk": "{chunk}", "question": "\n\nQ: {question}\nA:"}``.

        Raises:
            ModelError: it cannot be read, or says something else.
        """
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"a template cannot be read: {error}", given=path) from error

    @classmethod
    def from_json(cls, text: str) -> "Template":
        """A template from JSON.

        Raises:
            ModelError: it says something else.
        """
        expected = '{"chunk": "… {chunk} …", "question": "… {question} …"}, one of them or both'
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"a template is no JSON: {error}", expected=expected) from error
        if not isinstance(values, dict) or not values or set(values) - set(_KEYS):
            given = ", ".join(sorted(values)) if isinstance(values, dict) else type(values).__name__
            raise ModelError("a template has other keys", given=given or "none", expected=expected)
        for key, text in values.items():
            if not isinstance(text, str) or text.count("{" + key + "}") != 1:
                raise ModelError(f"a template's {key} is wrong", given=text, expected=f"a text with {{{key}}} once")
        return cls(values.get("chunk"), values.get("question"))

    def to_json(self) -> str:
        """What `from_json` reads."""
        values = {"chunk": self.chunk, "question": self.question}
        return json.dumps({key: text for key, text in values.items() if text is not None})
