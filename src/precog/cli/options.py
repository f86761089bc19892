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
CODECS = "fp32|fp16|int8|int8-rot|int4|int4-rot"
Codec = Annotated[str, typer.Option("--codec", metavar=CODECS, help="How states are stored.")]
Retrieval = Annotated[
    str | None,
    typer.Option(
        "--retrieval",
        metavar="hybrid|dense|bm25",
        help="How chunks are found \\[env: PRECOG_RETRIEVAL].",
        show_default=False,
    ),
]
Compose = Annotated[
    str,
    typer.Option("--compose", metavar="mean|concat|permute|mix|replay", help="How several states become one context."),
]
ComposeTemperature = Annotated[
    float,
    typer.Option(
        "--compose-temperature", metavar="T", help="Of the softmax over scores (mean and mix); 1 in the paper."
    ),
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        metavar="P",
        help="Below it there is no answer.  \\[default: the model's own]",
        show_default=False,
    ),
]
AlwaysAnswer = Annotated[bool, typer.Option("--always-answer", help="Answer whatever the confidence.")]
Free = Annotated[bool, typer.Option("--free", help="Let the model say what it likes.")]
User = Annotated[str, typer.Option("--user", metavar="U", help="Whose memory.")]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Of the random numbers.", min=0, max=2**63 - 1)
]  # as torch and numpy take it
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, last on stdout.")]
