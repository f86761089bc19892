"""Runs a command of this process and says how it ended."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from precog.cli.main import main


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The object on the last line of stdout."""
        return json.loads(self.out.splitlines()[-1])


Run = Callable[..., Ended]


def runner(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Ended(end.value.code, captured.out, captured.err)

    return run
