from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from served import listening, services_of, settings_in
from server_fixtures import choice as choice
from server_fixtures import client as client
from server_fixtures import encoder as encoder
from server_fixtures import services as services

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.services import Services


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Of a module: while it runs, Playwright's event loop is this thread's, and no other test could start one."""
    path = chromium()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # of a busy machine
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def shipped() -> ModelChoice:
    """The model that answers."""
    name = ModelChoice(name="tenns-base")
    return ModelChoice(name=str(name.folder()), loaded=name.load("once"))


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    with listening(services) as found:
        yield found


@pytest.fixture
def shipped_url(tmp_path: Path, shipped: ModelChoice, encoder: Encoder) -> Iterator[str]:
    with services_of(settings_in(tmp_path), shipped, encoder) as made, listening(made) as found:
        yield found
