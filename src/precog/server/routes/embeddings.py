"""``/v1/embeddings``: texts ▸ the sentence encoder's keys."""

import base64
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from precog.errors import InputError, MissingError, UsageError
from precog.server.depends import Reader, ServicesDep
from precog.server.wire import Name, Text, Theirs, texts_of
from precog.server.work import Job

router = APIRouter(prefix="/v1/embeddings", tags=["embeddings"])
_MOST_TEXTS = 2048
_MOST_CHARS = 1 << 17
"""Of one text: between two texts it is looked whether anybody still waits."""


class EmbeddingRequest(Theirs):
    """One text, or several."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"model": "all-MiniLM-L6-v2 (INT8)", "input": "Who found radium?"}]},
    )

    model: Name = Field(description="Name of the sentence encoder.")
    input: Text | list[Text] | list[int] | list[list[int]] = Field(description="Text; token ids are not taken.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = Field(default=None, description="The encoder's own, or nothing.")

    @property
    def texts(self) -> list[str]:
        """The texts.

        Raises:
            UsageError: token ids.
            InputError: there are none, too many, or one is blank or too long.
        """
        texts = texts_of(self.input, "texts", _MOST_TEXTS)
        blank = next((number for number, text in enumerate(texts) if not text.strip()), None)
        if blank is not None:
            raise InputError("a text is blank", given=f"text {blank}", expected="words")
        long = next((number for number, text in enumerate(texts) if len(text) > _MOST_CHARS), None)
        if long is not None:
            expected = f"at most {_MOST_CHARS} characters"
            raise InputError("a text is too long", given=f"text {long}", expected=expected, hint="send it in parts")
        return texts


class Embedding(BaseModel):
    """The key of one text, of unit length."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="Numbers, or little-endian float32 in base64.")


class EmbeddingUsage(BaseModel):
    """What it cost, in the language model's tokens as everywhere in this API."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(BaseModel):
    """Keys, in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


@router.post("", operation_id="create_embeddings")
async def create_embeddings(
    body: EmbeddingRequest, request: Request, services: ServicesDep, principal: Reader
) -> Embeddings:
    """Embed texts; one that is longer than the encoder's window gives the mean of its windows, normalised."""
    encoder = services.encoder
    if not services.is_encoder(body.model):
        hint = "GET /v1/models lists them"
        expected = services.encoder_name
        raise MissingError("there is no such encoder", given=body.model[:80], expected=expected, hint=hint)
    texts, tokenizer = body.texts, services.scheduler.backbone.tokenizer
    if body.dimensions not in (None, encoder.dim):
        raise UsageError("keys are not cut", given=f"{body.dimensions} dimensions", expected=encoder.dim)

    def embed(job: Job) -> tuple[list[Embedding], int]:
        made, num_tokens = [], 0
        for index, text in enumerate(texts):
            if job.cancelled.is_set():
                break
            key = encoder.encode_query(text).astype("<f4")
            made.append(Embedding(index=index, embedding=_written(key, body.encoding_format)))
            num_tokens += len(tokenizer.encode(text))
        return made, num_tokens

    data, num_tokens = await services.workers.run(request, embed)
    usage = EmbeddingUsage(prompt_tokens=num_tokens, total_tokens=num_tokens)
    return Embeddings(data=data, model=services.encoder_name, usage=usage)


def _written(key: np.ndarray, encoding_format: str) -> list[float] | str:
    return base64.b64encode(key.tobytes()).decode() if encoding_format == "base64" else key.tolist()
