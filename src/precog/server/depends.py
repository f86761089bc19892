"""What routes ask for by type: services, and who asks."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Query, Request

from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.wire import Name


def _services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


def _asking(scope: str) -> Callable[[Request], Principal]:
    def principal(request: Request) -> Principal:
        found: Principal = request.state.principal
        found.check(scope)
        return found

    return principal


ServicesDep = Annotated[Services, Depends(_services)]
Reader = Annotated[Principal, Depends(_asking("read"))]
Writer = Annotated[Principal, Depends(_asking("write"))]
Admin = Annotated[Principal, Depends(_asking("admin"))]
User = Annotated[Name | None, Query(description="Whose; another user than the key's needs the scope admin.")]


def _reader_for(principal: Reader, user: User = None) -> Principal:
    return principal.acting_for(user)


def _writer_for(principal: Writer, user: User = None) -> Principal:
    return principal.acting_for(user)


ReaderFor = Annotated[Principal, Depends(_reader_for)]
WriterFor = Annotated[Principal, Depends(_writer_for)]
"""Whoever it is done for: whoever asks, or the user that an administrator names."""
