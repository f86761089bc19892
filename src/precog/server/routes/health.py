"""``GET /healthz``: whether the server answers."""

from fastapi import APIRouter
from pydantic import BaseModel

from precog.server.depends import ServicesDep

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """Whether requests are answered."""

    status: str
    model: str


@router.get("/healthz", operation_id="get_health")
def health(services: ServicesDep) -> Health:
    """Whether the server answers; needs no key."""
    return Health(status="stopping" if services.stopping.is_set() else "ok", model=services.model_name)
