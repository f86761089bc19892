"""``precog eval long``: long documents made of the articles of SQuAD."""

from typing import Annotated, Any, cast

import typer

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_lengths import print_lengths, print_overall
from precog.cli.eval_nq import ChunkTokens
from precog.cli.eval_rows import measured
from precog.cli.output import counted, print_json
from precog.config import resolve
from precog.evaluate.long_documents import LongDocuments, LongSettings
from precog.evaluate.squad_data import read_questions

_DEFAULTS = LongSettings()


def long(
    data: options.SquadFile,
    per_bin: Annotated[int, typer.Option(metavar="N", help="Questions in each bin of lengths.")] = _DEFAULTS.per_bin,
    per_document: Annotated[
        int, typer.Option(metavar="N", help="Most questions about one document, which is read once for all of them.")
    ] = _DEFAULTS.per_document,
    most_tokens: Annotated[
        int, typer.Option(metavar="N", help="Length of the longest document.")
    ] = _DEFAULTS.most_tokens,
    seed: options.Seed = 0,
    chunk_tokens: ChunkTokens = 0,
    free: options.Free = False,
    codec: options.Codec = "fp16",
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Long documents of consecutive paragraphs: what a state forgets, by length and by the tokens read since."""
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    chosen = LongSettings(per_bin, per_document, most_tokens, chunk_tokens, codec, free, seed)
    everything = read_questions(data)
    backbone = load_backbone(settings.model, encode_mode="once", device=settings.device, threads=settings.threads)
    experiment = LongDocuments(everything, backbone, chosen, settings.encoder)
    report = measured(experiment)
    if as_json:
        print_json(report)
        return 0
    title = f"Documents of SQuAD paragraphs, {counted(len(experiment), 'question')}"
    print_lengths(title, "tokens", cast(dict[str, Any], report["bins"]))
    print_lengths("The same, by the tokens after the question's paragraph", "after", cast(Any, report["distances"]))
    print_overall(cast(dict[str, Any], report["all"]))
    return 0
