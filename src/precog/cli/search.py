"""``precog search``: what would be retrieved for a question."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import print_json
from precog.cli.sources import print_source
from precog.config import resolve
from precog.corpus.search import Searcher


def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to look for.")],
    corpus: options.Corpus = None,
    top_k: Annotated[int, typer.Option(metavar="N", help="Most chunks to show.")] = 10,
    retrieval: options.Retrieval = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Find chunks for a question, without a model.

    A score orders the chunks of one question. With hybrid retrieval it is relative to the best found: 1 is first in
    meaning and in words, and says nothing of how well that chunk answers.
    """
    settings = resolve({"corpus": corpus, "retrieval": retrieval, "encoder": encoder})
    with Searcher(settings.corpus_folder, encoder=settings.encoder, retrieval=settings.retrieval) as searcher:
        result = searcher.search(question, top_k)
    if as_json:
        hits = [found.to_json() for found in result.found]
        times = {"encode": result.encode_sec, "search": result.search_sec}
        print_json({"hits": hits, "timings_sec": times})
        return 0
    for number, found in enumerate(result.found, 1):
        print_source(number, found)
    return 0
