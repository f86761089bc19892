"""``/`` and ``/page/…``: the web page, files of the package that hold nothing of anybody's; its scripts ask the API."""

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import Response

from precog.errors import MissingError

router = APIRouter(include_in_schema=False)
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # no text becomes HTML, whatever a script does
        "trusted-types 'none'",
    )
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX = "index.html"


@cache
def page_files() -> dict[str, tuple[bytes, str, str]]:
    """Name ▸ bytes, type and tag of every file of the page; the tag is new where the bytes are."""
    found = {}
    for entry in files("precog.server").joinpath("page").iterdir():
        name = entry.name
        kind = _TYPES.get(name[name.rfind(".") :])
        if kind is not None:
            data = entry.read_bytes()
            found[name] = (data, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return found


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    """The web page."""
    return _answer(request, _INDEX)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str) -> Response:
    """A script, the style or the icon of it."""
    if name not in page_files():
        raise MissingError("the page has no such file")
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    data, kind, tag = page_files()[name]
    headers = {
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-cache",  # asked for each time, sent only where it has changed
        "ETag": tag,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=kind, headers=headers)
