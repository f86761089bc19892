"""``/v1/models``: what may be named as ``model``."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from precog.errors import MissingError
from precog.server.depends import Reader, ServicesDep
from precog.server.services import Services

router = APIRouter(prefix="/v1/models", tags=["models"])


class Model(BaseModel):
    """One model."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "precog"


class Models(BaseModel):
    """All of them."""

    object: Literal["list"] = "list"
    data: list[Model]


def _all(services: Services) -> list[Model]:
    return [Model(id=services.model_name), Model(id=services.encoder_name)]


@router.get("", operation_id="list_models")
def models(services: ServicesDep, principal: Reader) -> Models:
    """The language model and the sentence encoder."""
    return Models(data=_all(services))


@router.get("/{name:path}", operation_id="get_model")
def model(name: str, services: ServicesDep, principal: Reader) -> Model:
    """One of them."""
    for found in _all(services):
        if found.id == name or (found.id == services.encoder_name and services.is_encoder(name)):
            return found
    raise MissingError("there is no such model", given=name[:80], expected=", ".join(m.id for m in _all(services)))
