import threading
import time
from collections.abc import Callable

import pytest

from precog.backbones.tenns.backbone import TennsBackbone
from precog.text.tokenizer import load_mistral_tokenizer


class Held(TennsBackbone):
    """A tiny model that waits at its gate, tells what it was given, and breaks when told to."""

    def prepare(self) -> "Held":
        self.gate, self.at_gate = threading.Event(), threading.Event()
        self.gate.set()
        self.passes: list[tuple[str, object]] = []
        self.breaks = False
        return self

    def _pass_through(self, name, given):
        self.passes.append((name, given))
        self.at_gate.set()
        assert self.gate.wait(300)
        if self.breaks:
            self.breaks = False
            raise RuntimeError("broken")

    def read(self, batch, tokens):
        self._pass_through("read", tokens.tolist())
        return super().read(batch, tokens)

    def read_padded(self, batch, tokens, lengths):
        self._pass_through("read", [row[:length] for row, length in zip(tokens.tolist(), lengths, strict=True)])
        return super().read_padded(batch, tokens, lengths)

    def step(self, batch, tokens):
        self._pass_through("step", list(tokens))
        return super().step(batch, tokens)

    def encode_chunks(self, chunks):
        self._pass_through("encode", [len(chunk) for chunk in chunks])
        return super().encode_chunks(chunks)


def until(condition: Callable[[], bool]) -> None:
    """Returns once it holds."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture(scope="session")
def loaded() -> Held:
    return Held.random("tiny-outer", load_mistral_tokenizer())


@pytest.fixture
def model(loaded: Held) -> Held:
    return loaded.prepare()


@pytest.fixture(name="until")
def _until():
    return until
