"""``GET /metrics``: counters for Prometheus."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from precog.server.depends import Admin, ServicesDep

router = APIRouter(tags=["operations"])


@router.get(
    "/metrics",
    operation_id="get_metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": "precog_tokens_saved_total 512.0\n"}}}},
)
def metrics(services: ServicesDep, principal: Admin) -> PlainTextResponse:
    """What has been counted since the start, in Prometheus's text format; needs the scope admin."""
    return PlainTextResponse(services.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
