"""A corpus and the model, together for one question; the corpus stays open for the next."""

from collections.abc import Iterator
from contextlib import contextmanager

from precog.corpus.answer import CorpusAnswer
from precog.corpus.ask import Asker
from precog.corpus.search import Searcher
from precog.index import Retrieval
from precog.records import ModelChoice
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.wording import in_requests_words


@contextmanager
def searching(services: Services, principal: Principal, name: str) -> Iterator[Searcher]:
    """A corpus that may be searched as long as the block lasts; errors come in the words of a request.

    Args:
        services: of the server.
        principal: who asks.
        name: of a corpus, the asker's own or a shared one.

    Raises:
        MissingError: there is no such corpus, or it was deleted meanwhile.
        CorpusError, EncoderError: it cannot be searched here.
    """
    folder = services.tenant(principal).corpus(name)
    with in_requests_words(folder, name), services.corpora.searching(folder) as searcher:
        yield searcher


@contextmanager
def asking(
    services: Services, principal: Principal, name: str, model: ModelChoice, retrieval: Retrieval = "hybrid"
) -> Iterator[Asker]:
    """The same, to be asked.

    Args:
        services: of the server.
        principal: who asks.
        name: of a corpus, the asker's own or a shared one.
        model: for the thread that asks.
        retrieval: by meaning, by words, or both.

    Raises:
        ForeignStateError: another model made the corpus.
        MissingError, CorpusError, EncoderError: see `searching`.
    """
    with (
        searching(services, principal, name) as searcher,
        Asker(searcher, model=model, retrieval=retrieval, home=services.settings.home) as asker,
    ):
        yield asker


def saved_tokens(answer: CorpusAnswer, inject: int) -> int:
    """Tokens of chunks whose states were injected instead of reading them.

    Args:
        answer: that was made.
        inject: of how many chunks it was to be made.
    """
    if answer.plan is None or answer.plan.way == "in-context":
        return 0
    members = [found.chunk for found in (answer.sources or answer.looked_at)[:inject]]
    counts = [chunk.num_tokens if chunk.is_stored else 0 for chunk in members]
    if answer.plan.way == "resume" or answer.mixture.rule == "replay":
        return max(counts, default=0)
    return sum(counts)
