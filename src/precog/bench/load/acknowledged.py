"""What a server has acknowledged to its clients, and whether it is still there."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from precog.bench.load.connection import Connection
from precog.errors import InputError
from precog.writing import output_file

_PAGE = 1000
_LOOK_SEC = 0.5


@dataclass
class Acknowledged:
    """What the server has said it keeps.

    Attributes:
        corpus: that documents were sent to.
        documents: names of documents that were taken.
        memories: texts that were remembered.
        responses: ids of responses that were stored.
    """

    corpus: str
    documents: list[str] = field(default_factory=list)
    memories: list[str] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, kind: str, what: str) -> None:
        """Something has been acknowledged."""
        with self._lock:
            getattr(self, kind).append(what)

    def to_json(self) -> dict[str, object]:
        """As a file keeps it."""
        return {
            "corpus": self.corpus,
            "documents": self.documents,
            "memories": self.memories,
            "responses": self.responses,
        }

    def write(self, path: Path) -> None:
        """Keeps it in a file."""
        with output_file(path) as file:
            file.write(json.dumps(self.to_json()).encode())

    @classmethod
    def read(cls, path: Path) -> "Acknowledged":
        """What `write` kept.

        Raises:
            InputError: it is no such file.
        """
        try:
            found = json.loads(path.read_bytes())
            lists = {name: [str(text) for text in found[name]] for name in ("documents", "memories", "responses")}
            return cls(str(found["corpus"]), lists["documents"], lists["memories"], lists["responses"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            hint = "`precog bench load --check FILE` writes one"
            raise InputError("the file of what was acknowledged cannot be read", given=path, hint=hint) from error

    def lost(self, connection: Connection, *, wait_sec: float) -> list[str]:
        """What is not there, a line each; documents are waited for, since they are read after they are acknowledged."""
        deadline = time.monotonic() + wait_sec
        missing = set(self.documents)
        while missing:
            missing -= set(_documents(connection, self.corpus))
            if not missing or time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_SEC)
        lost = [f"document {name}" for name in sorted(missing)]
        if self.memories:
            there = set(_memories(connection))
            lost += [f"memory {text}" for text in self.memories if text not in there]
        for response in self.responses:
            if connection.ask("GET", f"/v1/responses/{quote(response)}").status != 200:
                lost.append(f"response {response}")
        return lost


def _documents(connection: Connection, corpus: str) -> Iterator[str]:
    offset = 0
    while True:
        found = connection.ask(
            "GET", f"/v1/corpora/{corpus}/documents?status=indexed&limit={_PAGE}&offset={offset}"
        ).body.get("data")
        if not isinstance(found, list) or not found:
            return
        yield from (str(row["document"]) for row in found)
        offset += len(found)


def _memories(connection: Connection) -> Iterator[str]:
    before = ""
    while True:
        found = connection.ask("GET", f"/v1/memories/me/deposits?limit={_PAGE}{before}").body
        rows = found.get("deposits")
        if not isinstance(rows, list):
            return
        yield from (str(row["text"]) for row in rows)
        if not found.get("older"):
            return
        before = f"&before={found['older']}"
