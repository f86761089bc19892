"""``precog memory remember``: words, or a whole transcript, become deposits."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell, tell_lines
from precog.cli.output import counted, err, out, print_json, shown
from precog.cli.progress import Counting
from precog.cli.streams import bytes_of_input, note_committed
from precog.config import resolve
from precog.errors import UsageError
from precog.memory.chunking import chunks_of, told
from precog.memory.contents import groups_of
from precog.memory.moment import parse_time
from precog.memory.place import memory_folder
from precog.memory.recall import refreshed_or_why
from precog.memory.settings import check_importance
from precog.memory.transcript import read_transcript, transcript_of
from precog.memory.utterance import Utterance, refuse_broken


def remember(
    user: options.User,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The words that were said.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="TRANSCRIPT",
            help="Remember a whole conversation from this file instead, or from standard input (-): JSON lines or JSON "
            "with text, time, speaker and place; a ChatGPT or WhatsApp export; LoCoMo or Spacelog JSON; SRT or VTT "
            "subtitles; or lines such as 'Ana: hello', with or without a time before the name. Packed by gzip, xz or "
            "zstd or not; it says when, who and where itself, so not with --time, --speaker or --place.",
            show_default=False,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="ISO",
            help="When it was said: ISO 8601, or words (1:56 pm on 8 May, 2023), or seconds since 1970; without an "
            "offset in this machine's zone.  \\[default: now; what a transcript says of each turn]",
            show_default=False,
        ),
    ] = None,
    speaker: Annotated[
        str | None, typer.Option(metavar="S", help="Who said it.  \\[default: nobody is noted]", show_default=False)
    ] = None,
    place: Annotated[
        str | None,
        typer.Option(metavar="P", help="Where it was said.  \\[default: no place is noted]", show_default=False),
    ] = None,
    importance: Annotated[
        float,
        typer.Option(
            metavar="X", help="How important it is, any number: of two states the less important expires first."
        ),
    ] = 0.0,
    dial_a: options.DialA = None,
    dial_b: options.DialB = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            metavar="A",
            help="Weight of a new deposit in the semantic state of its sub-cluster, above 0 and at most 1.  "
            "\\[default: the memory's own; 0.1 in a new one]",
            show_default=False,
        ),
    ] = None,
    budget: options.Budget = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    template: options.Template = None,
    as_json: options.Json = False,
) -> int:
    """Remember what was said: its text for good, its state as long as the budget allows.

    How a memory keeps states (--dial-a, --dial-b, --alpha, --budget) is settled by the first thing it remembers;
    `precog memory reindex` changes it. Dials that do not fit the budget are refused with the largest that does.
    """
    if (text is None) == (file is None):
        given = "neither" if text is None else "both"
        raise UsageError("what is to be remembered?", given=given, expected="TEXT, or --file TRANSCRIPT")
    if time is not None and not time.strip():
        raise UsageError("an option says nothing", given='--time ""', expected="a time, or no such option")
    if file is not None and (time or speaker or place):
        raise UsageError("a transcript says when, who and where itself", given="--time, --speaker or --place")
    refuse_broken(text=text, speaker=speaker, place=place)
    check_importance(importance)
    settings = resolve(
        {"model": model, "device": device, "threads": threads, "dtype": dtype, "template": template, "encoder": encoder}
    )
    # what was said is read before anything is made or changed
    if file is not None:
        transcript = transcript_of(bytes_of_input(), "standard input") if str(file) == "-" else read_transcript(file)
        said, total = transcript.utterances, transcript.num_utterances
        for note in transcript.notes:
            err.print(f"[yellow]note:[/] {shown(note)}")
    else:
        at = datetime.datetime.now().astimezone() if time is None else parse_time(time)
        said, total = iter([Utterance(text or "", at.replace(microsecond=0), speaker, place)]), 1
    wanted = {"dial_a": dial_a, "dial_b": dial_b, "alpha": alpha, "budget_bytes": budget}
    folder = memory_folder(settings.home, user)
    # only now what loads torch, which takes seconds: a refusal of what was said comes at once
    from precog.memory.deposit import deposit
    from precog.memory.opened import OpenMemory
    from precog.records import ModelChoice

    choice = ModelChoice.of(settings)
    with OpenMemory.open(folder, choice, encoder=settings.encoder, wanted=wanted, create=True) as memory:
        with Counting("turns") as bar:
            tokenizer, most = memory.backbone.tokenizer, memory.settings.chunk_tokens
            chunks = told(chunks_of(said, tokenizer, max_tokens=most), lambda turns: bar.show(turns, total))
            done = deposit(memory, chunks, importance=importance)
        note_committed("what was said is remembered all the same")
        tell_lines(refreshed_or_why(memory.store, memory.settings.encoder_fingerprint))
        tell(memory.damage)
        shown_ids = done.ids if as_json else tuple(dict.fromkeys(done.ids[:20]))
        groups = groups_of(memory.store, shown_ids)
    if as_json:
        print_json({**done.to_json(), "groups": groups})
        return 0
    new = len(done.ids) - done.num_duplicates
    out.print(f"[bold]remembered[/] {counted(new, 'deposit')}, {done.num_duplicates} known already")
    for number, group in sorted(zip(shown_ids, groups, strict=True)):
        if group:  # a damaged one has none
            out.print(f"  {number}  {shown(' ▸ '.join(group))}")
    if done.expired.deposit_ids:
        expired = counted(len(done.expired.deposit_ids), "deposit")
        out.print(f"[yellow]budget:[/] the states of {expired} expired; texts stay")
    return 0
