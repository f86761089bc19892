"""The ``precog`` command: finds a sub-command in a table, loads it alone, and turns errors into one line.

A sub-command is a file of this folder and a row of `COMMANDS`. Nothing else is imported before it is known which one
is wanted, so that ``precog --help`` needs neither torch nor typer.
"""

import time

STARTED_SEC = time.perf_counter()

import errno  # noqa: E402  # the clock starts first: the time a user waits includes importing
import os  # noqa: E402
import shlex  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from contextlib import contextmanager, suppress  # noqa: E402
from importlib import import_module  # noqa: E402
from types import FrameType  # noqa: E402

from precog.cli.streams import guarded  # noqa: E402
from precog.cli.text import json_line, visible  # noqa: E402
from precog.errors import PrecogError, StorageError, UsageError  # noqa: E402
from precog.interrupt import InterruptedRunError  # noqa: E402

COMMANDS: dict[str, tuple[str, str]] = {
    "index": ("precog.cli.index:index", "Read documents once and keep what the model remembers of them."),
    "ask": ("precog.cli.ask:ask", "Answer a question from the stored states, with sources."),
    "search": ("precog.cli.search:search", "Find chunks for a question, without a model."),
    "verify": ("precog.cli.verify:verify", "Prove that injecting a state equals reading the text."),
    "info": ("precog.cli.info:info", "Say what a corpus holds and what made it."),
    "list": ("precog.cli.documents:documents", "List the documents of a corpus."),
    "forget": ("precog.cli.forget:forget", "Remove a document and prove that no byte of it is left."),
    "reindex": ("precog.cli.reindex:reindex", "Read the stored text again with a new model or encoder."),
    "chat": ("precog.cli.chat:chat", "Talk to a memory, with or without a corpus."),
    "memory": ("precog.cli.memory:app", "Remember, recall and forget what was said."),
    "serve": ("precog.cli.serve:serve", "Serve corpora and memories over HTTP, as OpenAI's clients speak it."),
    "keys": ("precog.cli.keys:app", "Make, list and revoke the keys of a server."),
    "mcp": ("precog.cli.mcp:mcp", "Give agents a memory and documents, over the Model Context Protocol."),
    "backup": ("precog.cli.backup:backup", "Copy all that a server keeps into one file, while it serves."),
    "restore": ("precog.cli.backup:restore", "Make the folders of a backup again."),
    "conform": ("precog.cli.conform:conform_command", "Show whether the states of a model can be trusted."),
    "models": ("precog.cli.models:models", "List the installed models."),
    "eval": ("precog.cli.eval:app", "Measure answers on a data set."),
    "reproduce": (
        "precog.cli.reproduce:reproduce",
        "Run the paper again, and write one report of it.",
    ),
    "bench": ("precog.cli.bench:app", "Measure speed, as ratios to the machine's limits."),
    "quantize": ("precog.cli.quantize:quantize", "Store a model in fewer bits, and say what that costs and brings."),
    "horizon": ("precog.cli.horizon:horizon", "Measure how far back a model remembers, and propose a chunk length."),
    "edge": ("precog.cli.edge:edge", "Say what stored states would buy on a device, in time, energy and storage."),
    "train": ("precog.cli.train:app", "Train a model, or go on with one on your own examples."),
    "train-data": ("precog.cli.train_data:train_data", "Prepare data to train on."),
}
"""Name ▸ where the command is (a function, or a typer app with several commands), and its line of help."""

INTERRUPTED = 130
_OF_SERVER = ("fastapi", "starlette", "uvicorn", "multipart", "python_multipart", "prometheus_client")
_OF_MCP = ("mcp", "mcp_types", "anyio", "pydantic", "pydantic_core")
_GOING_ON = ("index", "reindex", "forget", "train", "reproduce")
_GOING_ON_IN_MEMORY = tuple(("memory", name) for name in ("remember", "import", "reindex", "forget", "purge"))
_DISK_ERRORS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its status: 0, 1 failed, 2 wrong usage, 130 interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    with guarded() as output, _terminable():
        status = _status(arguments, output.broken)
    sys.exit(status)


@contextmanager
def _terminable() -> Iterator[None]:
    """Inside, SIGTERM is an interruption like Ctrl-C, unless a command handles it or whoever started it ignores it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, own = signal.getsignal(signal.SIGTERM), os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != own:  # a copy of this process has nothing to tell
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise KeyboardInterrupt

    if before is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _status(arguments: list[str], is_closed: bool) -> int:
    try:
        if is_closed:
            sys.stdout.write("")  # says so before any work is done for nothing
        status = _run(arguments)
        sys.stdout.flush()
    except InterruptedRunError as interruption:
        return _interrupted(arguments, interruption.message)
    except PrecogError as error:
        return _report(error, arguments)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        return 1  # whoever read the output has gone
    except OSError as error:
        return _report(_refused(error) if error.errno in _DISK_ERRORS else _bug(error), arguments)
    except Exception as error:
        return _report(_bug(error), arguments)
    return _interrupted(arguments) if status == INTERRUPTED else status


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] in ("--version", "-V"):
        from importlib.metadata import version

        print(f"precog {version('precog-ssm')}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `precog {near[0]}`?" if near else "see `precog --help`"
        raise UsageError("there is no such command", given=name, expected=", ".join(COMMANDS), hint=hint)
    return _run_command(name, rest)


def _run_command(name: str, arguments: list[str]) -> int:
    import typer
    from typer.main import get_command

    module, _, attribute = COMMANDS[name][0].partition(":")
    try:
        command = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "precog":
            hint = "install precog-ssm again"
            raise UsageError("the installation lacks a part of it", given=error.name, hint=hint) from error
        missing = (error.name or "").partition(".")[0]
        hint = f"pip install {error.name}"
        if name in ("serve", "mcp") and missing in (*_OF_SERVER, *_OF_MCP):
            hint = f"pip install 'precog-ssm[{'server' if name == 'serve' else 'mcp'}]'"
        raise UsageError(
            f"`precog {name}` needs a package that is not installed", given=error.name, hint=hint
        ) from error
    if not isinstance(command, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(context_settings={"help_option_names": ["-h", "--help"]})(command)
        command = app
    refusal = typer.BadParameter.__mro__[2]  # what all of the library's complaints about a command line derive from
    try:
        status = get_command(command).main(arguments, prog_name=f"precog {name}", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        if not isinstance(error, refusal):
            raise
        message = " ".join(error.format_message().split())  # type: ignore[attr-defined]  # the class has no public name
        if not message:  # no arguments: its help was printed
            commands = ", ".join(getattr(get_command(command), "commands", {}))
            raise UsageError("which command?", expected=commands, hint=f"see `precog {name} --help`") from error
        path = getattr(getattr(error, "ctx", None), "command_path", f"precog {name}")
        raise UsageError(message.rstrip("."), hint=f"see `{path} --help`") from error
    return status if isinstance(status, int) else 0


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{line}" for name, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: precog COMMAND [OPTIONS]",
            "",
            "Read a text once, store what the model remembers of it, and never read it again.",
            "",
            "Commands:",
            *lines,
            "",
            "`precog COMMAND --help` explains one command; `precog --version` tells the version.",
        ]
    )


def _report(error: PrecogError, arguments: Sequence[str]) -> int:
    """One line on stderr; with --json the error object, last on stdout."""
    if os.environ.get("RANK", "0") != "0":  # one of several processes of a run: the first one speaks for all
        return error.exit_status
    print(f"precog: {visible(' '.join(str(error).split()))}", file=sys.stderr)
    _report_json(error, arguments)
    if _debugging():
        import traceback

        traceback.print_exception(error)
    return error.exit_status


def _bug(error: Exception) -> PrecogError:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" at {os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at is not None else ""
    wrapped = PrecogError(
        f"this is a bug in precog: {type(error).__name__}{place}: {error}",
        hint="please report it with the output of PRECOG_DEBUG=1",
    )
    wrapped.code = "bug"
    wrapped.__cause__ = error
    return wrapped


def _refused(error: OSError) -> PrecogError:
    refusal = StorageError("a file or folder cannot be used", given=error.filename, hint=error.strerror)
    refusal.__cause__ = error
    return refusal


def _interrupted(arguments: Sequence[str], kept: str | None = None) -> int:
    """One line on stderr; what is kept, where a note says so, and how to go on."""
    after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has just shown ^C
    goes_on = bool(arguments) and (arguments[0] in _GOING_ON or tuple(arguments[:2]) in _GOING_ON_IN_MEMORY)
    hint = None
    if kept is not None:  # a command with other options would begin something else
        hint = f"{kept}; to go on: {shlex.join(['precog', *arguments])}"
    elif goes_on:
        hint = "what was acknowledged is kept, run it again to go on"
    error = PrecogError("interrupted", hint=hint)
    error.code = "interrupted"
    if os.environ.get("RANK", "0") != "0":
        return INTERRUPTED
    print(f"{after_echo}precog: {error}", file=sys.stderr)
    _report_json(error, arguments)
    return INTERRUPTED


def _report_json(error: PrecogError, arguments: Sequence[str]) -> None:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" not in options:
        return
    with suppress(StorageError, BrokenPipeError):  # then it is this stream that the line on stderr is about
        print(json_line({"error": error.to_json()}), flush=True)


def _debugging() -> bool:
    from precog.config import resolve

    try:
        return resolve().debug
    except PrecogError:  # the settings themselves are what is wrong
        return os.environ.get("PRECOG_DEBUG") == "1"


if __name__ == "__main__":
    main()
