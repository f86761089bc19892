"""Settings: flag > environment > config file > default, strict and frozen; every variable stands in one table.

The config file is ``config.toml`` in the home folder (``PRECOG_HOME``, default ``~/.precog``), one ``key = value`` a
line. A key that nobody knows, or a value out of range, is refused with the place it came from. The table ``[server]``
is the server's own: its keys are in `precog.server.settings`.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from precog.errors import CorpusError, UsageError

Retrieval = Literal["hybrid", "dense", "bm25"]
"""By meaning and by words, or by one of them."""
HOME = "PRECOG_HOME"
CONFIG_FILE = "config.toml"
SERVER = "server"
"""The table of the config file that `precog serve` reads."""
MAX_THREADS = 4096
_DEVICE = re.compile(r"auto|cpu(:0)?|cuda(:[0-9]{1,3})?|mps(:0)?")


@dataclass(frozen=True)
class Variable:
    """One setting.

    Attributes:
        key: in the config file and in `Settings`.
        environment: the variable that sets it.
        flag: the option that sets it; "" where there is none.
        meaning: one line for people.
        read: from text, or from a value of the config file.
        default: as text; "" for none.
    """

    key: str
    environment: str
    flag: str
    meaning: str
    read: Callable[[object], object]
    default: str = ""


def expanded(path: str | Path) -> Path:
    """A path as a user writes it ▸ one that can be opened: ``~`` and ``~name`` become home folders.

    Raises:
        UsageError: it is empty, or there is no such user.
    """
    text = os.fspath(path)
    if not text:
        raise UsageError("a path is empty", expected="a file or folder", hint="is a variable unset?")
    if "\0" in text:
        raise UsageError("no path has a NUL in it", given=text.replace("\0", "\\0"))
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        hint = f"write ./{text} if it is a name" if text.startswith("~") else None
        raise UsageError("there is no home folder of this user", given=text, hint=hint) from error


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty; is a variable unset?")
    return str(expanded(value)) if value.startswith("~") else value


def one_of(*names: str) -> Callable[[object], object]:
    """Reads one of some words."""

    def read(value: object) -> str:
        if value not in names:
            raise ValueError(" or ".join(names))
        return str(value)

    return read


def _device(value: object) -> str:
    if not isinstance(value, str) or not _DEVICE.fullmatch(value):
        raise ValueError("auto, cpu, cuda, cuda:N or mps")
    return value


def _threads(value: object) -> int:
    text = value if isinstance(value, str) else value if isinstance(value, int) and not isinstance(value, bool) else ""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= MAX_THREADS:
        raise ValueError(f"a whole number from 1 to {MAX_THREADS}")
    return number


def switch(value: object) -> bool:
    """Reads true or false, as people write it."""
    if isinstance(value, bool):
        return value
    names = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(value).lower() not in names:
        raise ValueError("true or false")
    return names[str(value).lower()]


VARIABLES: tuple[Variable, ...] = (
    Variable("model", "PRECOG_MODEL", "--model", "model folder, or name of an installed model", _text),
    Variable("device", "PRECOG_DEVICE", "--device", "where the model computes", _device, "auto"),
    Variable("threads", "PRECOG_THREADS", "--threads", "CPU threads of the model; default: torch's choice", _threads),
    Variable("dtype", "PRECOG_DTYPE", "--dtype", "what the model computes in; packed: INT4 and INT8 weights stay so",
             one_of("auto", "float32", "bfloat16", "packed"), "auto"),
    Variable("template", "PRECOG_TEMPLATE", "--template", "JSON file with the text around chunks and questions", _text),
    Variable("corpus", "PRECOG_CORPUS", "--corpus", "corpus folder", _text),
    Variable(
        "encoder", "PRECOG_ENCODER", "--encoder", "sentence encoder: folder, ONNX file or cached hub id", _text
    ),
    Variable("retrieval", "PRECOG_RETRIEVAL", "--retrieval", "how chunks are found",
             one_of("hybrid", "dense", "bm25"), "hybrid"),
    Variable("debug", "PRECOG_DEBUG", "", "show the traceback of an error", switch, "false"),
)  # fmt: skip
"""Every setting that has an environment variable; ``PRECOG_HOME`` alone, the folder they are read from, is not here."""


@dataclass(frozen=True)
class Settings:
    """What holds for one run; None where nobody set it and there is no default.

    Attributes:
        home: folder of the config file.
        model: folder or name.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        threads: CPU threads of the model.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``packed``.
        template: JSON file with the text around chunks and questions.
        corpus: corpus folder.
        encoder: sentence encoder.
        retrieval: ``hybrid``, ``dense`` or ``bm25``.
        debug: show tracebacks.
    """

    home: Path
    model: str | None = None
    device: str = "auto"
    threads: int | None = None
    dtype: str = "auto"
    template: str | None = None
    corpus: str | None = None
    encoder: str | None = None
    retrieval: Retrieval = "hybrid"
    debug: bool = False

    @property
    def corpus_folder(self) -> Path:
        """The corpus folder.

        Raises:
            UsageError: nobody named one.
            CorpusError: it is a file.
        """
        if self.corpus is None:
            raise UsageError("which corpus?", expected="--corpus DIR or PRECOG_CORPUS")
        folder = expanded(self.corpus)
        if os.path.isfile(folder):
            raise CorpusError("it is a file, not the folder of a corpus", given=folder)
        return folder


def resolve(flags: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this run.

    Args:
        flags: what the command line set, by key; None values are not set.
        environment: default the process's own.

    Raises:
        UsageError: an unknown key, or a value that its variable cannot have.
    """
    environment = os.environ if environment is None else environment
    home = home_of(environment)
    in_file = {key: value for key, value in config_file(environment).items() if key != SERVER}
    values = values_of(VARIABLES, flags or {}, environment, in_file, str(home / CONFIG_FILE))
    return Settings(home=home, **values)  # type: ignore[arg-type]  # each value was read by its variable


def home_of(environment: Mapping[str, str]) -> Path:
    """The home folder of the program.

    Raises:
        UsageError: there is no such user.
    """
    return expanded(environment.get(HOME) or "~/.precog")


def config_file(environment: Mapping[str, str]) -> dict[str, object]:
    """What stands in the config file; nothing where there is none.

    Raises:
        UsageError: it cannot be read, or its table for the server is none.
    """
    path = home_of(environment) / CONFIG_FILE
    found = _config_file(path, bool(environment.get(HOME)))
    if not isinstance(found.get(SERVER, {}), dict):
        given = f"{SERVER} in {path}"
        raise UsageError("this setting is a table of several", given=given, expected=f"[{SERVER}] on a line of its own")
    return found


def values_of(
    variables: Sequence[Variable],
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    in_file: Mapping[str, object],
    place: str,
) -> dict[str, object]:
    """The value of every variable that has one: flag > environment > config file > default.

    Args:
        variables: all that may be set.
        flags: by key; None values are not set.
        environment: of the process.
        in_file: what the config file says.
        place: of it, for errors.

    Raises:
        UsageError: an unknown key, or a value that its variable cannot have.
    """
    known = {variable.key for variable in variables}
    for key in in_file:
        if key not in known:
            expected = ", ".join(variable.key for variable in variables)
            raise UsageError("unknown setting", given=f"{key} in {place}", expected=expected)
    values: dict[str, object] = {}
    for variable in variables:
        given = flags.get(variable.key)
        if given is not None:
            values[variable.key] = _read(variable, given, variable.flag)
        elif environment.get(variable.environment):
            values[variable.key] = _read(variable, environment[variable.environment], variable.environment)
        elif variable.key in in_file:
            values[variable.key] = _read(variable, in_file[variable.key], f"{variable.key} in {place}")
        elif variable.default:
            values[variable.key] = variable.read(variable.default)
    return values


def _read(variable: Variable, value: object, place: str) -> object:
    try:
        return variable.read(value)
    except ValueError as error:
        raise UsageError(f"{place} cannot have this value", given=value, expected=str(error)) from error


def _config_file(path: Path, is_named: bool) -> dict[str, object]:
    home, whose = path.parent, f"{HOME} says so" if is_named else f"{HOME} is not set"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except NotADirectoryError as error:
        given, hint = f"{home} ({whose})", f"set {HOME} to a folder, or to one that is to be made"
        raise UsageError("the home of PRECOG is no folder", given=given, expected="a folder", hint=hint) from error
    except OSError as error:
        given, hint = f"{path} ({error.strerror or error}; {whose})", f"mend it, or set {HOME} to another folder"
        raise UsageError("the config file cannot be read", given=given, expected="a TOML file", hint=hint) from error
    except (ValueError, RecursionError) as error:
        hint = "mend that line, or remove the file: everything in it is optional"
        raise UsageError(
            "the config file cannot be read", given=f"{path} ({error})", expected="TOML", hint=hint
        ) from error


assert {field.name for field in fields(Settings)} == {"home", *(variable.key for variable in VARIABLES)}
