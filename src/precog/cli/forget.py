"""``precog forget``: a document leaves, and every byte of the corpus is searched for it."""

from pathlib import Path
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import counted, human_bytes, out, print_json, shown
from precog.cli.progress import Counting
from precog.config import resolve
from precog.corpus.corpus import settings_of
from precog.corpus.forget import forget_document
from precog.server.outside import forget_responses_of_corpus
from precog.server.settings import resolve_server
from precog.store import CorpusStore


def forget(
    document: Annotated[str, typer.Option("--document", metavar="D", help="As `precog list` shows it, or its path.")],
    corpus: options.Corpus = None,
    as_json: options.Json = False,
) -> int:
    """Remove a document and prove that no byte of it is left."""
    from precog.backbones.registry import load_tokenizer

    settings, server = resolve({"corpus": corpus}), resolve_server()
    with CorpusStore.open(settings.corpus_folder) as store:
        tokenizer = load_tokenizer(settings_of(store).model)
    with Counting("searching") as bar:
        report = forget_document(settings.corpus_folder, document, tokenizer, bar.show)
    responses = forget_responses_of_corpus(server, settings.corpus_folder)
    if as_json:
        print_json({**report.to_json(), "responses": responses})
    else:
        for name in report.forgotten:
            out.print(f"[bold]forgotten[/] {shown(name)}")
            if Path(name).is_file():
                out.print(
                    "[yellow]note[/] its file is still there: the next `precog index` of its folder reads it again"
                )
        out.print(
            f"searched {report.files_searched} files ({human_bytes(report.bytes_searched)}) for "
            f"{report.searched_for} pieces of its text, tokens, keys and states: "
            f"[{'red' if report.hits else 'green'}]{report.hits} found[/]"
        )
        for other in report.outside:
            out.print(f"[yellow]also said by[/] {shown(str(other['document']))} ({other['windows']} pieces)")
        if responses:
            out.print(f"removed {counted(responses, 'stored response')} of a server, which had read this corpus")
    return 1 if report.hits else 0
