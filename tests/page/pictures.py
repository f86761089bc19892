"""The pictures in docs/page: `precog serve` with the shipped model on a folder that goes away, seen in Chromium."""

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from browser import NONE_INSTALLED, THEMES, installed, opened
from made_site import ANSWER, QUESTION, TRUNCATED, demo_files, diary, fill
from PIL import Image
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "page"
MARGIN = 14
MOST_COLOURS = 256
FREQUENT = 192


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server as anybody starts it, whose data lie in a folder."""
    command = [sys.executable, "-m", "precog", "serve", "--model", "tenns-base", "--data", folder / "data"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRECOG_")}
    with subprocess.Popen(
        [*command, "--port", "0", "--rate", "0", "--log-level", "error"],
        env={**environment, "PRECOG_HOME": str(folder / "home")},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        said = ""
        try:
            for line in server.stderr:
                said += line
                if ready := re.search(r"serving at (http\S+)", line):
                    yield ready[1].rstrip("/")
                    return
            sys.exit(f"the server did not start: {said.strip()}")
        finally:
            server.terminate()


def show_ask(page: Any) -> Any:
    page.get_by_label("Question").fill(QUESTION)
    page.keyboard.press("Enter")
    page.locator(".verdict").wait_for()
    expect(page.locator(".answer")).to_have_text(ANSWER)
    return page.locator("details.others-found")


def show_corpora(page: Any) -> Any:
    expect(page.get_by_role("region", name="Failures")).to_contain_text("broken.pdf")
    return page.get_by_role("region", name="Documents")


def show_memory(page: Any) -> Any:
    page.get_by_role("button", name="emerging:").click()
    expect(page.locator(".bar-head h2")).to_contain_text("emerging:")
    return page.locator(".timeline li").nth(1)


def show_device(page: Any) -> Any:
    page.get_by_role("button", name="Measure this machine").click()
    expect(page.locator("h2 .badge")).to_have_text("measured")
    return page.get_by_role("region", name="What it buys")


PAGES: dict[str, Callable[[Any], Any]] = {
    "ask": show_ask, "corpora": show_corpora, "memory": show_memory, "device": show_device,
}  # fmt: skip
"""What is done on each page before its picture is taken; what comes back is the last thing in the picture."""


def taken(page: Any, last: Any) -> bytes:
    """The page from its top to the end of an element, in a file of few colours."""
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    page.mouse.move(0, 0)
    box = last.bounding_box()
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": int(box["y"] + box["height"]) + MARGIN}
    return few_colours(page.screenshot(full_page=True, clip=clip, animations="disabled"))


def few_colours(png: bytes) -> bytes:
    """The same with at most 256 colours: those there is most of, and of the rest what is least like any."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    found, where, counts = np.unique(
        np.asarray(picture).reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    colours = found.astype(np.float32)
    kept = list(np.argsort(-counts, kind="stable")[:FREQUENT])
    away = np.min([distances(colours, number) for number in kept], axis=0)
    while len(kept) < min(MOST_COLOURS, len(found)) and away.any():
        kept.append(int(np.argmax(away)))
        away = np.minimum(away, distances(colours, kept[-1]))
    nearest = np.argmin([distances(colours, number) for number in kept], axis=0).astype(np.uint8)
    paletted = Image.frombytes("P", picture.size, nearest[where.reshape(-1)].tobytes())
    paletted.putpalette(found[kept].tobytes())
    written = io.BytesIO()
    paletted.save(written, "PNG", optimize=True)
    return written.getvalue()


def distances(colours: np.ndarray, number: int) -> np.ndarray:
    distance: np.ndarray = ((colours - colours[number]) ** 2).sum(axis=1)
    return distance


def main() -> None:
    """Take all of them, then write all of them."""
    chromium = installed()
    if chromium is None:
        sys.exit(f"scripts/pictures: {NONE_INSTALLED}")
    expect.set_options(timeout=60_000)
    pictures: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as url, sync_playwright() as playwright:
        names = sorted(path.name for path in (ROOT / "demo" / "documents").iterdir())
        fill(url, [*demo_files(ROOT, *names), ("broken.pdf", TRUNCATED)], diary())
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with opened(browser, url) as page:
            show_ask(page)  # once before it counts: files are looked at when the first is asked for
        for theme, options in THEMES.items():
            for name, show in PAGES.items():
                with opened(browser, f"{url}/#{name}", reduced_motion="reduce", **options) as page:
                    pictures[f"{name}-{theme}.png"] = taken(page, show(page))
        browser.close()
    for name, data in pictures.items():
        (PICTURES / name).write_bytes(data)
        print(f"{len(data) / 1000:6.1f} kB  docs/page/{name}")


if __name__ == "__main__":
    main()
