"""The memory of whoever asks, opened for one request."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from precog.errors import BusyError, CorpusError, MissingError, StateError, StorageError
from precog.memory.opened import OpenMemory
from precog.memory.settings import MemorySettings
from precog.server.forgetting import forget_using
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.wording import called
from precog.store.memory import MemoryStore
from precog.text.tokenizer import Tokenizer

WAIT_SEC = 10.0
"""For a writer outside this server; then the client is told to come again."""


@dataclass(frozen=True)
class UserMemory:
    """One user's memory.

    Attributes:
        services: of the server.
        principal: whose it is.
    """

    services: Services
    principal: Principal

    @property
    def folder(self) -> Path:
        """Where it is, there or not."""
        return self.services.tenant(self.principal).memory

    @contextmanager
    def reading(self) -> Iterator[MemoryStore]:
        """The memory, open to read.

        Raises:
            MissingError: nothing is remembered, or the memory was purged meanwhile.
            BusyError: it was replaced meanwhile.
        """
        with self.told(), self._opened() as store:
            try:
                yield store
            except (CorpusError, StateError, StorageError):
                fate = store.fate  # what is gone reads like damage
                if fate == "removed":
                    raise _nothing() from None
                if fate != "there":
                    raise BusyError("the memory was replaced meanwhile") from None
                raise

    @contextmanager
    def writing(
        self,
        cancelled: Event,
        *,
        create: bool = False,
        before_making: Callable[[Tokenizer, MemorySettings], None] = lambda tokenizer, settings: None,
    ) -> Iterator[OpenMemory]:
        """The memory, open to write, as soon as nobody else does.

        Args:
            cancelled: set when whoever asked has gone; what is not committed then is not done.
            create: make it where there is none.
            before_making: told what it is to be made with; what it raises leaves nothing behind.

        Raises:
            MissingError: nothing is remembered.
            BusyError: somebody else, such as the command line, went on writing.
            LimitError: too many requests wait to write to it.
        """
        services = self.services
        with self.told(), services.writers.turn(self.folder, cancelled):
            if not create:
                self.check_there()
            model = services.model(self.principal, cancelled)
            with OpenMemory.open(
                self.folder,
                model,
                encoder=services.encoder,
                create=create,
                wait_sec=WAIT_SEC,
                before_making=before_making,
            ) as memory:
                yield memory

    def told(self) -> AbstractContextManager[None]:
        """Errors of the block as clients are to read them."""
        return called(self.folder, "the memory")

    def forget_what_was_made_of_it(self) -> int:
        """Removes stored responses that have read the memory; returns how many."""
        return forget_using(self.services, self.principal.user, "memory")

    @property
    def is_there(self) -> bool:
        """Whether anything was ever remembered."""
        return MemoryStore.FOLDER(self.folder).exists

    def check_there(self) -> None:
        """Refuses to work on a memory that there is not.

        Raises:
            MissingError: nothing is remembered.
        """
        if not self.is_there:
            raise _nothing()

    def _opened(self) -> MemoryStore:
        self.check_there()
        return MemoryStore.open(self.folder)


def _nothing() -> MissingError:
    return MissingError("nothing is remembered", hint="POST /v1/memories/me/deposits remembers")
