"""The files of a request, in a form or as its body; the guard counts their bytes while they come."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryFile

from fastapi import Request
from python_multipart.exceptions import FormParserError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from precog.errors import CancelledError, InputError, UsageError
from precog.server.uploads import MOST_FILES, Sent, check_names, unkept

_MOST_FIELDS = 16


@asynccontextmanager
async def sent_files(request: Request, name: str | None) -> AsyncIterator[list[Sent]]:
    """The files of an upload, open for as long as the block lasts.

    Args:
        request: whose body was not read yet.
        name: of the document, where the body itself is one.

    Raises:
        UsageError: a name is given for a form, or none for a body.
        InputError: the form is broken, has no file, or a file has a name that none may have.
        CancelledError: the client went away before the end.
    """
    is_form = request.headers.get("content-type", "").lower().startswith("multipart/form-data")
    if is_form == (name is not None):
        expected = "multipart/form-data, or a body and ?name="
        raise UsageError("what is this document called?", given=f"name {name}" if is_form else None, expected=expected)
    try:
        async with _form(request) if name is None else _body(request, name) as sent:
            yield sent
    except ClientDisconnect:
        raise CancelledError("whoever asked has gone") from None


@asynccontextmanager
async def _form(request: Request) -> AsyncIterator[list[Sent]]:
    parser = MultiPartParser(request.headers, request.stream(), max_files=MOST_FILES, max_fields=_MOST_FIELDS)
    try:
        form = await parser.parse()
    except (MultiPartException, FormParserError, UnicodeError, ValueError) as error:
        raise InputError("the form cannot be read", hint=" ".join(str(error).split())[:200]) from error
    except OSError as error:
        raise unkept(error) from error
    try:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        check_names(file.filename or "" for file in files)
        yield [Sent(file.filename or "", file.file) for file in files]
    finally:
        await form.close()


@asynccontextmanager
async def _body(request: Request, name: str) -> AsyncIterator[list[Sent]]:
    check_names([name])
    with TemporaryFile() as copy:
        async for data in request.stream():
            try:
                await run_in_threadpool(copy.write, data)
            except OSError as error:
                raise unkept(error) from error
        copy.seek(0)
        yield [Sent(name, copy)]
