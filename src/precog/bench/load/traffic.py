"""What clients ask a server for: a mixture of everything, some of which is broken off."""

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from precog.bench.load.acknowledged import Acknowledged
from precog.bench.load.connection import Address, Answered, Connection

_SHIPS = ("Aurora", "Borealis", "Caravel", "Dorado", "Esperance", "Fulmar", "Galatea", "Halcyon")
_PORTS = ("Lisbon", "Bergen", "Genoa", "Valletta", "Riga", "Porto", "Cork", "Bruges")
_MOST_TOKENS = 16


def text_of(number: int) -> str:
    """A document of which no two are the same."""
    rng = random.Random(number)
    lines = [
        f"The {rng.choice(_SHIPS)} sailed from {rng.choice(_PORTS)} in {1500 + rng.randrange(400)} with "
        f"{rng.randrange(20, 300)} sailors, led by captain {number}-{line}."
        for line in range(6)
    ]
    return f"# Log {number}\n\n" + "\n\n".join(lines) + "\n"


def question_of(rng: random.Random) -> str:
    """A question to such documents."""
    return f"When did the {rng.choice(_SHIPS)} sail from {rng.choice(_PORTS)}?"


@dataclass
class Shared:
    """What all clients of a run know.

    Attributes:
        address: of the server.
        model: name of the language model.
        encoder: name of the sentence encoder.
        acknowledged: what the server has said it keeps.
        numbers: of texts, each given once.
    """

    address: Address
    model: str
    encoder: str
    acknowledged: Acknowledged
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1000))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def number(self) -> int:
        """The next number."""
        with self._lock:
            return next(self.numbers)


class Client:
    """One client: it asks for something, waits for the answer, and asks for the next thing.

    Args:
        shared: what all know.
        seed: of what it asks for.
        cancel: share of requests that it breaks off.
    """

    def __init__(self, shared: Shared, seed: int, cancel: float) -> None:
        self._shared, self._cancel = shared, cancel
        self._rng = random.Random(seed)
        self._previous: str | None = None
        self.connection = Connection(shared.address)

    def act(self) -> tuple[str, Answered]:
        """One request: its kind, and what came of it."""
        kinds, weights = zip(*KINDS.items(), strict=True)
        (kind,) = self._rng.choices(kinds, [weight for weight, _ in weights])
        _, act = KINDS[kind]
        return kind, act(self, self._rng.random() < self._cancel)

    def _ask(self, path: str, body: object, goes: bool) -> Answered:
        return self.connection.ask("POST", path, body, gone_after=self._rng.uniform(0.0, 0.5) if goes else None)

    def _stream(self, path: str, body: dict[str, object], goes: bool) -> Answered:
        return self.connection.stream(path, {**body, "stream": True}, gone_after=1 if goes else None)

    def _chat_body(self) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self._shared.model,
            "messages": [{"role": "user", "content": question_of(self._rng)}],
            "max_tokens": _MOST_TOKENS,
        }
        if self._rng.random() < 0.5:
            body["precog"] = {"corpus": self._shared.acknowledged.corpus}
        return body

    def _ask_body(self) -> dict[str, object]:
        return {"question": question_of(self._rng), "free": self._rng.random() < 0.5, "max_tokens": _MOST_TOKENS}

    def chat(self, goes: bool) -> Answered:
        """A chat, answered at once."""
        return self._ask("/v1/chat/completions", self._chat_body(), goes)

    def chat_stream(self, goes: bool) -> Answered:
        """A chat, answered as it comes."""
        return self._stream("/v1/chat/completions", self._chat_body(), goes)

    def ask(self, goes: bool) -> Answered:
        """A question to the corpus."""
        return self._ask(f"/v1/corpora/{self._shared.acknowledged.corpus}/ask", self._ask_body(), goes)

    def ask_stream(self, goes: bool) -> Answered:
        """The same, answered as it comes."""
        return self._stream(f"/v1/corpora/{self._shared.acknowledged.corpus}/ask", self._ask_body(), goes)

    def respond(self, goes: bool) -> Answered:
        """A response, often to the one before."""
        body = {
            "model": self._shared.model,
            "input": question_of(self._rng),
            "previous_response_id": self._previous if self._rng.random() < 0.7 else None,
            "max_output_tokens": _MOST_TOKENS,
        }
        answered = self._ask("/v1/responses", body, goes)
        if answered.status == 200:
            self._previous = str(answered.body.get("id"))
            self._shared.acknowledged.note("responses", self._previous)
        return answered

    def remember(self, goes: bool) -> Answered:
        """Something that is new."""
        number = self._shared.number()
        text = f"Berth {number} is taken by the {self._rng.choice(_SHIPS)} from {self._rng.choice(_PORTS)}."
        body = {"text": text, "speaker": self._shared.acknowledged.corpus}
        answered = self._ask("/v1/memories/me/deposits", body, goes)
        if answered.status == 200:
            self._shared.acknowledged.note("memories", text)
        return answered

    def recall(self, goes: bool) -> Answered:
        """A question to the memory."""
        return self._ask("/v1/memories/me/recall", {"query": question_of(self._rng), "top_k": 3}, goes)

    def embed(self, goes: bool) -> Answered:
        """Keys of two texts."""
        texts = [question_of(self._rng), question_of(self._rng)]
        return self._ask("/v1/embeddings", {"model": self._shared.encoder, "input": texts}, goes)

    def upload(self, goes: bool) -> Answered:
        """A new document."""
        number = self._shared.number()
        return upload(self.connection, self._shared.acknowledged, number, self._rng.uniform(0.0, 0.2) if goes else None)

    def health(self, goes: bool) -> Answered:
        """Whether the server answers; never broken off."""
        return self.connection.ask("GET", "/healthz")


def upload(
    connection: Connection, acknowledged: Acknowledged, number: int, gone_after: float | None = None
) -> Answered:
    """Sends document ``number``; the job that reads it is not waited for."""
    name = f"log-{number}.md"
    path = f"/v1/corpora/{acknowledged.corpus}/documents?name={quote(name)}"
    answered = connection.ask("POST", path, text_of(number).encode(), gone_after=gone_after)
    if answered.status == 202:
        acknowledged.note("documents", name)
    return answered


KINDS: dict[str, tuple[float, Callable[[Client, bool], Answered]]] = {
    "chat": (4.0, Client.chat),
    "chat_stream": (4.0, Client.chat_stream),
    "ask": (3.0, Client.ask),
    "ask_stream": (3.0, Client.ask_stream),
    "response": (2.0, Client.respond),
    "remember": (2.0, Client.remember),
    "recall": (4.0, Client.recall),
    "embed": (3.0, Client.embed),
    "upload": (0.3, Client.upload),
    "health": (1.0, Client.health),
}
"""Kind ▸ how often it is asked for, relative to the others, and how."""
