"""The object ``precog`` in requests of another API: from what, and how, they are to be answered."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from precog.config import Retrieval
from precog.errors import UsageError
from precog.server.wire import Name, Ours, Real, Text, Theirs


class Precog(Ours):
    """From what a question is answered, and how; everything may be left out."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"corpus": "handbook", "top_k": 3}, {"memory": True, "corpus": "handbook"}]},
    )

    corpus: Name | None = Field(default=None, description="A corpus of the user's, or one that is shared.")
    memory: bool = Field(default=False, description="Whether the user's memory is searched, and told what is said.")
    user: Name | None = Field(default=None, description="Whose; another user than the key's needs the scope admin.")
    top_k: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="Chunks and deposits that are retrieved.")
    inject: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="States that are composed, at most top_k."
    )
    mode: Literal["inject", "in-context", "none", "auto", "resume"] | None = Field(
        default=None, description="How chunks come into the model; inject where nothing is said."
    )
    compose: Name | None = Field(default=None, description="Rule of composition.")
    compose_temperature: Annotated[Real, Field(gt=0)] | None = None
    layers: Name | None = Field(default=None, description="Layers to inject, such as bottom:6.")
    retrieval: Retrieval | None = None
    free: bool = Field(default=False, description="Let the model say what it likes, not only what stands in the texts.")
    min_confidence: Annotated[Real, Field(ge=0, le=1)] | None = Field(
        default=None, description="Below it there is no answer; the model's own threshold where nothing is said."
    )
    always_answer: bool = Field(default=False, description="Answer whatever the confidence.")
    remember: Literal["statements", "all", "nothing"] | None = Field(
        default=None, description="What the memory keeps: statements where the key has the scope write, else nothing."
    )
    speaker: Annotated[Text, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="Who speaks, as deposits note it; the user where nothing is said."
    )


class Extended(Theirs):
    """A request of another API that may have the object ``precog``."""

    precog: Precog | None = Field(default=None, description="From what else, and how, the question is answered.")

    @model_validator(mode="before")
    @classmethod
    def _in_its_place(cls, values: Any) -> Any:
        """Refuses what belongs into ``precog`` beside it, where it would be left alone in silence."""
        for name in sorted(Precog.model_fields.keys() - _THEIR_FIELDS) if isinstance(values, dict) else ():
            if name in values:
                place = f'extra_body={{"precog": {{"{name}": …}}}}'
                raise UsageError(f"{name} belongs into precog: {place}", given=f"{name} beside precog", expected=place)
        return values


_THEIR_FIELDS = {"user"}
"""Fields of this name have a meaning in the other API."""
