"""Options that several commands share, as types: one spelling and one line of help for all of them."""

from typing import Annotated

import typer

Corpus = Annotated[
    str | None,
    typer.Option("--corpus", metavar="DIR", help="Corpus folder \\[env: PRECOG_CORPUS].", show_default=False),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="DIR|NAME", help="Model folder or installed model \\[env: PRECOG_MODEL].", show_default=False
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="auto|cpu|cuda|mps", help="Where to compute \\[env: PRECOG_DEVICE].", show_default=False
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="CPU threads \\[env: PRECOG_THREADS].", show_default=False)
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="PATH|HUB_ID",
        help="Sentence encoder: a folder, an ONNX file or a cached hub id \\[env: PRECOG_ENCODER].",
        show_default=False,
    ),
]
Retrieval = Annotated[
    str | None,
    typer.Option(
        "--retrieval",
        metavar="hybrid|dense|bm25",
        help="How chunks are found \\[env: PRECOG_RETRIEVAL].",
        show_default=False,
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Of the random numbers.", min=0, max=2**63 - 1)
]  # as torch and numpy take it
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, last on stdout.")]
