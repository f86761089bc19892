"""The demo: index real documents, answer questions from injected states, and show where the time went.

It runs the ``precog`` command and reads its JSON, so that everything shown can be done by hand. Exit status 0 means
that every step ran and at least seven of the eight answers came from the right document.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from precog.evaluate.metrics import exact_match

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "demo-corpus"
PRECOG = Path(sys.executable).parent / "precog"
LEAST_RIGHT_SOURCES = 7
STEPS = (
    ("encode", "key"),
    ("search", "search"),
    ("load", "load"),
    ("inject", "inject"),
    ("first_token", "read question"),
)

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Asked:
    """A question, what was expected, and the answer as `precog ask --json` gave it."""

    question: str
    answers: list[str]
    document: str
    reply: dict[str, Any]

    @property
    def source(self) -> dict[str, Any]:
        sources = self.reply["sources"] or self.reply["looked_at"]
        return sources[0] if sources else {"document": "none", "page": None}

    @property
    def source_is_right(self) -> bool:
        return Path(self.source["document"]).name == self.document

    @property
    def answer_is_right(self) -> bool:
        return not self.reply["abstained"] and exact_match(self.reply["text"], self.answers) > 0


class DemoError(Exception):
    """A step did not run; its own line has already been printed."""


def index(options: Sequence[str]) -> dict[str, Any]:
    """Runs ``precog index`` on a fresh corpus."""
    shutil.rmtree(CORPUS, ignore_errors=True)
    command = ["index", str((HERE / "documents").relative_to(HERE.parent)), "--corpus", CORPUS.name, *options]
    say(command)
    run = subprocess.run([PRECOG, *command, "--json"], cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise DemoError("precog index failed")
    report: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return report


def ask(questions: Sequence[dict[str, Any]], options: Sequence[str]) -> Iterator[Asked]:
    """Runs one ``precog ask`` and gives it question after question."""
    command = ["ask", "--corpus", CORPUS.name, "--always-answer", *options]
    say(command)
    with subprocess.Popen(
        [PRECOG, *command, "--json"],
        cwd=HERE.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for entry in questions:
            try:
                process.stdin.write(entry["question"] + "\n")
                process.stdin.flush()
            except BrokenPipeError as error:
                raise DemoError("precog ask failed") from error
            line = process.stdout.readline()
            reply = json.loads(line) if line else {"error": None}
            if "error" in reply:
                raise DemoError("precog ask failed")
            yield Asked(entry["question"], entry["answers"], entry["document"], reply)
        process.stdin.close()
        if process.wait():
            raise DemoError("precog ask failed")


def say(command: Sequence[str]) -> None:
    """Shows a command as one would type it."""
    words = [f'"{word}"' if " " in word else word for word in command]
    console.print(f"\n[dim]$[/] [bold]precog {escape(' '.join(words))}[/]")


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def mark(right: bool) -> str:
    return "[bold green]✓[/]" if right else "[bold red]✗[/]"


def show(number: int, asked: Asked) -> None:
    reply, source = asked.reply, asked.source
    times = reply["timings_sec"]
    console.print(f"\n[bold]{number}. {escape(asked.question)}[/]")
    wanted = "" if asked.answer_is_right else f"  [dim]expected: {escape(asked.answers[0])}[/]"
    console.print(f"   {mark(asked.answer_is_right)} [cyan]{escape(reply['text'])}[/]{wanted}")
    page = f", page {source['page']}" if source["page"] else ""
    wanted = "" if asked.source_is_right else f"  [dim]expected: {escape(asked.document)}[/]"
    console.print(f"   {mark(asked.source_is_right)} {escape(Path(source['document']).name)}{page}{wanted}")
    split = " + ".join(f"{name} {milliseconds(times[key])}" for key, name in STEPS)
    console.print(f"   [dim]confidence {reply['confidence']:.2f}; {split} = {milliseconds(times['ttft'])}[/]")


def summarise(report: dict[str, Any], injected: Sequence[Asked], in_context: Sequence[Asked]) -> None:
    def middle(runs: Sequence[Asked], key: str) -> str:
        return milliseconds(median(asked.reply["timings_sec"][key] for asked in runs))

    def tokens(runs: Sequence[Asked]) -> str:
        return f"{median(asked.reply['tokens_processed'] for asked in runs):.0f}"

    table = Table(title="Summary", title_justify="left", show_header=True, header_style="bold")
    table.add_column("")
    table.add_column("state injected", justify="right")
    table.add_column("text read again", justify="right")
    count = len(injected)
    pairs = (
        (
            "right sources",
            [f"{sum(asked.source_is_right for asked in runs)} of {count}" for runs in (injected, in_context)],
        ),
        (
            "right answers",
            [f"{sum(asked.answer_is_right for asked in runs)} of {count}" for runs in (injected, in_context)],
        ),
        ("tokens the model read, median", [tokens(injected), tokens(in_context)]),
        ("time to first token, median", [middle(injected, "ttft"), middle(in_context, "ttft")]),
        ("  of it search, load, inject", [middle(injected, "injection_overhead"), "–"]),
    )
    for name, cells in pairs:
        table.add_row(name, *cells)
    console.print()
    console.print(table)
    same = sum(a.reply["text"] == b.reply["text"] for a, b in zip(injected, in_context, strict=True))
    console.print(f"The same answer both ways: {same} of {count}.")
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        console.print(
            f"[yellow]Other processes were busy[/] ({load:.1f} of them wanted {cores} cores): times say little then. "
            "--threads N, or PRECOG_THREADS, keeps the model to cores that are free."
        )
    speed = f"{report['tokens_per_sec']:,.0f} tokens/s"
    console.print(f"Indexed once: {report['chunks']:,} chunks, {report['tokens']:,} tokens at {speed}.")


def main(options: Sequence[str]) -> int:
    started = time.perf_counter()
    questions = json.loads((HERE / "questions.json").read_text(encoding="utf-8"))
    try:
        console.rule("[bold]Read once", align="left")
        report = index(options)
        documents = report["documents"]
        console.print(
            f"{documents['new']} documents, {report['chunks']:,} chunks, {report['tokens']:,} tokens, "
            f"{report['tokens_per_sec']:,.0f} tokens/s"
        )
        if documents["failed"]:
            raise DemoError("a document could not be read")
        console.print()
        console.rule("[bold]Ask forever", align="left")
        injected = []
        for number, asked in enumerate(ask(questions, options), 1):
            show(number, asked)
            injected.append(asked)
        console.print()
        console.rule("[bold]For comparison: read the text again for every question", align="left")
        in_context = list(ask(questions, ["--mode", "in-context", *options]))
    except DemoError as error:
        console.print(f"[bold red]the demo stopped:[/] {error}")
        return 1
    summarise(report, injected, in_context)
    console.print(f"All of it took {time.perf_counter() - started:.0f} s. Ask something yourself:")
    console.print(f'[bold].venv/bin/precog ask "Who was Pitcairn named after?" --corpus {CORPUS.name}[/]')
    right = sum(asked.source_is_right for asked in injected)
    return 0 if right >= min(LEAST_RIGHT_SOURCES, len(questions)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
