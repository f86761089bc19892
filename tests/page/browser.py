"""Chromium, where there is one, and what every test of the page watches."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NONE_INSTALLED = "no Chromium is installed: on Debian, apt-get install chromium"
WIDE, PHONE = {"width": 1180, "height": 900}, {"width": 390, "height": 844}
THEMES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "has_touch": True},
}


def installed() -> str | None:
    """Where Chromium is; None where it is nowhere."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def chromium() -> str:
    """Where it is installed; the test is skipped where it is nowhere."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    found = installed()
    if found is None:
        pytest.skip(NONE_INSTALLED)
    return found


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A page of its own that may neither fail nor complain, nor ask anybody but its server."""
    context = browser.new_context(**{"viewport": WIDE, **options})
    context.set_default_timeout(60_000)
    page = context.new_page()
    wrong: list[str] = []
    origin = url.partition("#")[0]
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("console", lambda line: wrong.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("request", lambda asked: None if asked.url.startswith(origin) else wrong.append(f"asked {asked.url}"))
    page.goto(url)
    try:
        yield page
        assert not wrong, wrong
    finally:
        context.close()


def violations(page: Any) -> list[str]:
    """What axe finds wrong with the page as it is now."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]
