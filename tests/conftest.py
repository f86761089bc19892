"""What every test gets: no setting of the user's, one thread, and examples that are the same on every run."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from precog.config import HOME, VARIABLES

if not torch.cuda.is_available():  # kernels are interpreted: said before anything imports triton, as libraries do
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("dev", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable.environment, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path_factory.getbasetemp() / "home"))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]
