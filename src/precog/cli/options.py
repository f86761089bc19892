"""Options that several commands share, as types: one spelling and one line of help for all of them."""

from pathlib import Path
from typing import Annotated

import typer

from precog.cli.sizes import read_size

Corpus = Annotated[
    str | None,
    typer.Option(
        "--corpus", metavar="DIR", help="The folder of the corpus \\[env: PRECOG_CORPUS].", show_default=False
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="DIR|NAME",
        help="The model: a folder, or the name of an installed one \\[env: PRECOG_MODEL].",
        show_default=False,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda|mps",
        help="Where the model computes; auto takes a GPU if there is one \\[env: PRECOG_DEVICE].  \\[default: auto]",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        help="How many CPU threads the model uses \\[env: PRECOG_THREADS].  \\[default: torch's choice]",
        show_default=False,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="auto|float32|bfloat16|packed",
        help="What the model computes in; float32 is exact \\[env: PRECOG_DTYPE].",
        show_default=False,
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="FILE",
        help="JSON with the text around chunks and questions, kept by what is made with it \\[env: PRECOG_TEMPLATE].",
        show_default=False,
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="PATH|HUB_ID",
        help="The sentence encoder: a folder, an ONNX file or a cached hub id \\[env: PRECOG_ENCODER].  "
        "\\[default: the one that made the keys; the bundled one where there are none]",
        show_default=False,
    ),
]
Quality = Annotated[
    str | None,
    typer.Option(
        "--quality",
        metavar="fast|twice|study",
        help="What answers start from: chunks read once, read twice, or studied: each sentence is read alone, too, and "
        "an answer starts from the mean of a chunk and its sentence that is asked about; better answers, several "
        "times the bytes.  \\[default: fast]",
        show_default=False,
    ),
]
StudySteps = Annotated[
    int | None,
    typer.Option(
        "--study-steps",
        metavar="N",
        help="Most gradient steps of a state, with --quality study; 0 for none.  \\[default: 0]",
        show_default=False,
    ),
]
StudySeconds = Annotated[
    float | None,
    typer.Option(
        "--study-seconds",
        metavar="S",
        help="What the steps of a chunk may take, with --study-steps.  \\[default: 30 on a CPU, else no limit]",
        show_default=False,
    ),
]
CODECS = "fp32|fp16|int8|int8-rot|int4|int4-rot"
Codec = Annotated[str, typer.Option("--codec", metavar=CODECS, help="How states are stored.")]
Keys = Annotated[
    str | None,
    typer.Option(
        "--keys",
        metavar="text|title|questions",
        help="What chunks are found by: their text, the same after the name of its file where no heading stands before "
        "it, or that and the words of questions that rules make from it.  "
        "\\[default: the corpus's own; title in a new one]",
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
Compose = Annotated[
    str,
    typer.Option("--compose", metavar="mean|concat|permute|mix|replay", help="How several states become one context."),
]
ComposeTemperature = Annotated[
    float,
    typer.Option(
        "--compose-temperature",
        metavar="T",
        help="Temperature of the softmax over scores, for mean and mix; 1 in the paper.",
    ),
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        metavar="P",
        help="Confidence, 0 to 1, below which there is no answer.  \\[default: the model's own]",
        show_default=False,
    ),
]
AlwaysAnswer = Annotated[bool, typer.Option("--always-answer", help="Answer, however low the confidence is.")]
Free = Annotated[
    bool, typer.Option("--free", help="Let the model say what it likes, instead of words that it has read.")
]
ServerData = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The server's folder of corpora, responses and keys \\[env: PRECOG_SERVER_DATA].  "
        "\\[default: server in PRECOG_HOME]",
        show_default=False,
    ),
]
User = Annotated[str, typer.Option("--user", metavar="U", help="The user whose memory it is.")]
_DIAL = "a number, /N for one every N tokens, or all for one a token"
DialA = Annotated[
    str | None,
    typer.Option(
        "--dial-a",
        metavar="K",
        help=f"How many states are kept of a deposit about a specific, time-critical event: {_DIAL}.  "
        "\\[default: the memory's own; 1 in a new one]",
        show_default=False,
    ),
]
DialB = Annotated[
    str | None,
    typer.Option(
        "--dial-b",
        metavar="K",
        help="How many states are kept of any other deposit, such as of what recurs; as for --dial-a.  "
        "\\[default: the memory's own; 1 in a new one]",
        show_default=False,
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(
        "--budget",
        metavar="SIZE",
        parser=read_size,
        help="The bytes, as a number or as in 2GB, 500MB or 1GiB, that the states of all deposits may take together; "
        "beyond them the coldest states expire, texts stay.  "
        "\\[default: the memory's own; 1073741824, 1 GiB, in a new one]",
        show_default=False,
    ),
]
SquadFile = Annotated[
    Path, typer.Option("--data", metavar="FILE", help="SQuAD v1.1 JSON, or JSON lines (.gz allowed).")
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Questions; all when left out.", min=1)]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        help="Where the random numbers begin; the same seed gives the same result.",
        min=0,
        max=2**63 - 1,
    ),
]  # as torch and numpy take it
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, as the last line of stdout.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line, for each line that is said.")]
