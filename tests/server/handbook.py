"""A corpus of a user of a server, and the official client."""

import openai
from tiny_corpus import make_store

from precog.corpus.ingest import Ingest
from precog.server.services import Services
from precog.server.tenant import Tenant
from precog.text.sources import find_sources

FACTS = (
    "Marie Curie found radium in 1898. She worked in Paris.",
    "The harbour of Oban was built in 1811. Its lighthouse came later.",
    "A kestrel hovers over the field before it drops on a vole.",
)


def make_corpus(services: Services, user: str = "local", name: str = "handbook") -> None:
    """A corpus of three documents, read by the server's model."""
    assert services.choice.loaded is not None
    tenant = Tenant(services.settings, user)
    docs = services.settings.data / "docs"
    docs.mkdir(parents=True, exist_ok=True)
    for number, fact in enumerate(FACTS):
        (docs / f"{number}.txt").write_text(fact)
    folder = tenant.own_corpus(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with make_store(folder, services.choice.loaded, services.encoder) as store:  # type: ignore[arg-type]  # a real one
        Ingest(store, services.choice.loaded, services.encoder).run(find_sources([docs]))


def official(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
