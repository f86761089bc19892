"""``precog reindex``: another model or encoder for a corpus, from its stored text."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.index import IndexProgress, print_study_note, print_summary
from precog.cli.output import print_json
from precog.config import resolve
from precog.corpus.reindex import ReindexRequest
from precog.corpus.reindex import reindex as run
from precog.records import ModelChoice


def reindex(
    corpus: options.Corpus = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    quality: options.Quality = None,
    study_steps: options.StudySteps = None,
    study_seconds: options.StudySeconds = None,
    encode: Annotated[
        str | None,
        typer.Option(
            metavar="once|twice|twice-reversed",
            help="How often the model reads a chunk and, with --quality study, each of its sentences.",
            show_default=False,
        ),
    ] = None,
    codec: Annotated[
        str | None, typer.Option(metavar=options.CODECS, help="How states are stored.", show_default=False)
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="all|none|alternate|bottom:N|top:N|LIST", help="Layers whose states are kept.", show_default=False
        ),
    ] = None,
    keys: options.Keys = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    template: options.Template = None,
    as_json: options.Json = False,
) -> int:
    """Read the stored text again with a new model or encoder; the documents themselves are not needed.

    With only --encoder or --keys the states are kept and new keys are made. With nothing at all every state is made
    anew, which repairs damaged ones.
    """
    settings = resolve(
        {
            "corpus": corpus,
            "model": model,
            "device": device,
            "threads": threads,
            "dtype": dtype,
            "template": template,
            "encoder": encoder,
        }
    )
    request = ReindexRequest(
        corpus=settings.corpus_folder,
        model=ModelChoice.of(settings),
        encoder=settings.encoder,
        wanted={
            "quality": quality,
            "study_steps": study_steps,
            "study_seconds": study_seconds,
            "encode_mode": encode,
            "codec": codec,
            "layers": layers,
            "keys": keys,
        },
    )
    with IndexProgress() as progress:
        report = run(request, progress=progress)
    print_study_note(report)
    if as_json:
        print_json(report.to_json())
    else:
        print_summary(report, settings.corpus_folder, "read again")
    return 0
