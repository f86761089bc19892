"""What every test gets: no setting of the user's, one thread, and examples that are the same on every run."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from precog.config import HOME, VARIABLES

if not torch.cuda.is_available():  # kernels are interpreted: said before anything imports triton, as libraries do
    os.environ.setdefault("TRITON_INTERPRET", "1")

# neither a deadline nor a pace of the examples: they say how busy the machine is
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", patient, derandomize=True)
settings.register_profile("dev", patient)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collecting makes stays: no garbage is looked for meanwhile, but once at its end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable.environment, raising=False)
    for name in [name for name in os.environ if name.startswith("PRECOG_SERVER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(HOME, str(tmp_path_factory.getbasetemp() / "home"))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]
