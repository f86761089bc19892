"""What every body of a request is made of."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from precog.engine import Sampling
from precog.errors import InputError, MissingError, UsageError
from precog.server.services import Services


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"no valid Unicode: half a surrogate pair at character {error.start}") from None
    return text


Text = Annotated[str, AfterValidator(_unicode)]
"""Text that can be written down again: a lone half of a surrogate pair cannot."""
Name = Annotated[Text, Field(min_length=1, max_length=256)]
Real = Annotated[float, Field(allow_inf_nan=False)]
Stops = Text | Annotated[list[Text], Field(max_length=16)]
Metadata = Annotated[
    dict[Annotated[Text, Field(max_length=64)], Annotated[Text, Field(max_length=512)]], Field(max_length=16)
]


class Ours(BaseModel):
    """An object of this API alone: a field that it does not have is refused."""

    model_config = ConfigDict(extra="forbid")


class Theirs(BaseModel):
    """An object of OpenAI's API: fields that are not known here are left alone."""

    model_config = ConfigDict(extra="ignore")


class Sampled(Theirs):
    """How tokens are chosen."""

    temperature: Annotated[Real, Field(ge=0, le=2)] | None = Field(
        default=None, description="0 is greedy, and the default: the same question has the same answer."
    )
    top_p: Annotated[Real, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = Field(
        default=None, description="Of the random numbers; 0 when left out, so that answers come out the same."
    )

    @property
    def sampling(self) -> Sampling:
        """For the engine; a top_p of 0 keeps the most probable token alone."""
        top_p = 1.0 if self.top_p is None else max(self.top_p, 1e-9)
        return Sampling(self.temperature or 0.0, top_p, seed=self.seed or 0)


class Unsupported(Theirs):
    """Parameters that would change an answer in a way that this model cannot: refused unless they ask for nothing.

    What cannot change a text answer (``user``, ``store``, ``parallel_tool_calls`` …) is not even looked at.
    """

    n: Any = Field(default=None, description="1 or nothing.")
    logprobs: Any = Field(default=None, description="Not offered.")
    top_logprobs: Any = Field(default=None, description="Not offered.")
    logit_bias: Any = Field(default=None, description="Not offered.")
    frequency_penalty: Any = Field(default=None, description="0 or nothing.")
    presence_penalty: Any = Field(default=None, description="0 or nothing.")
    tools: Any = Field(default=None, description="Not offered: this model calls no tools.")
    functions: Any = Field(default=None, description="Not offered: this model calls no functions.")
    response_format: Any = Field(default=None, description="Text or nothing.")
    modalities: Any = Field(default=None, description="Text or nothing.")
    audio: Any = Field(default=None, description="Not offered.")

    def refuse(self, what: Mapping[str, tuple[object, ...]] | None = None) -> None:
        """Refuses what is asked for and cannot be had.

        Args:
            what: further fields, and the values of each that ask for nothing.

        Raises:
            UsageError: something is.
        """
        harmless: dict[str, tuple[object, ...]] = {
            "n": (1,),
            "logprobs": (False,),
            "top_logprobs": (0,),
            "logit_bias": ({},),
            "frequency_penalty": (0,),
            "presence_penalty": (0,),
            "tools": ([],),
            "functions": ([],),
            "response_format": ({"type": "text"},),
            "modalities": (["text"], []),
            "audio": (),
            **(what or {}),
        }
        for name, values in harmless.items():
            given = getattr(self, name)
            if given is not None and not any(_same(given, value) for value in values):
                shown = type(given).__name__ if isinstance(given, dict | list | str) else repr(given)[:40]
                expected = " or ".join(["nothing", *map(repr, values)])
                raise UsageError(
                    f"{name} is not offered: this model answers with one text", given=shown, expected=expected
                )


def _same(given: object, value: object) -> bool:
    return given == value and isinstance(given, bool) == isinstance(value, bool)


class TokensDetails(BaseModel):
    """Of the tokens of a request."""

    cached_tokens: int = Field(description="Those of the prompt that nobody read: a stored state stands for them.")


class Usage(BaseModel):
    """What a request cost."""

    prompt_tokens: int = Field(description="Tokens that the model read for it, and those that stored states stand for.")
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: TokensDetails | None = None


class StreamOptions(Theirs):
    """What a stream tells besides the answer."""

    include_usage: bool | None = Field(default=None, description="One more chunk at the end, without choices.")


def check_model(services: Services, name: str) -> None:
    """Refuses a model that is not the one that is served.

    Raises:
        MissingError: it is another.
    """
    if name != services.model_name:
        hint = "the encoder is for /v1/embeddings" if services.is_encoder(name) else "GET /v1/models lists them"
        raise MissingError("there is no such model", given=name[:80], expected=services.model_name, hint=hint)


def texts_of(given: str | Sequence[object], noun: str, most: int) -> list[str]:
    """One text or several, as clients send them.

    Args:
        given: they, or token ids.
        noun: what they are, as errors call them.
        most: how many there may be.

    Raises:
        UsageError: token ids are among them.
        InputError: there are none, or too many.
    """
    listed = [given] if isinstance(given, str) else given
    texts = [text for text in listed if isinstance(text, str)]
    if len(texts) < len(listed):
        raise UsageError("token ids are not taken", expected=f"{noun} in words")
    if not 1 <= len(texts) <= most:
        raise InputError(f"too many {noun}, or none", given=len(texts), expected=f"1 to {most}")
    return texts


def stops_of(stop: str | list[str] | None) -> tuple[str, ...]:
    """Texts before which an answer ends; an empty one ends nothing."""
    given = [stop] if isinstance(stop, str) else stop or []
    return tuple(text for text in given if text)
