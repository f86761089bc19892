"""The documentation as a site: it builds without a warning, and nothing in it comes from elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from blocks import ROOT
from browser import chromium, opened, violations

_REMOTE = re.compile(r"(?:https?:)?//(?!www\.w3\.org)")
_LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("object", "data")}
_LINKS_THAT_LOAD = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload", "dns-prefetch"}


class Loaded(HTMLParser):
    """What a page loads by itself, and its pictures without words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.mute: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.urls += [given[name] for name in given if (tag, name) in _LOADS]
        if tag == "link" and _LINKS_THAT_LOAD & set(given.get("rel", "").split()):
            self.urls.append(given.get("href", ""))
        if tag == "img" and not given.get("alt"):
            self.mute.append(given.get("src", ""))


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).with_name("mkdocs")
    return subprocess.run(
        [tool, "build", "--strict", "--config-file", config, "--site-dir", site],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once."""
    folder = tmp_path_factory.mktemp("site") / "site"
    built = build(ROOT / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def pages_of(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in sorted(site.rglob("*.html"))}


def test_it_has_every_page_and_the_files_beside_it(site: Path) -> None:
    named = set(pages_of(site))
    assert {"index.html", "quick-start.html", "repository/index.html", "repository/examples/with_llm.py.html"} <= named
    sources = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    expected = {(path.parent / "index" if path.name == "README" else path).as_posix() + ".html" for path in sources}
    assert expected <= named


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for name, text in pages_of(site).items():
        assert not [url for url in Loaded(text).urls if _REMOTE.match(url)], name
    for path in site.rglob("*.css"):
        remote = re.findall(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^)"']+)""", path.read_text("utf-8"))
        assert not remote, path


def test_every_picture_is_told_in_words(site: Path) -> None:
    for name, text in pages_of(site).items():
        assert not Loaded(text).mute, name
    drawn = [path for path in (ROOT / "docs" / "concepts").glob("*.svg") if not path.with_suffix(".json").exists()]
    for path in [ROOT / "docs" / "flow.svg", *drawn]:
        assert "<title" in path.read_text("utf-8"), path
        assert "<desc" in path.read_text("utf-8"), path


def test_the_reference_has_signatures_and_arguments(site: Path) -> None:
    text = (site / "reference" / "models.html").read_text("utf-8")
    assert 'id="precog.backbones.registry.load_backbone"' in text
    assert "folder or installed name" in text


OF_THE_THEME = ("aria-dialog-name", "landmark-unique")
"""What axe finds wrong with the theme's own frame, on every page."""

BROKEN = {
    "[gone](no-such-page.md)": "no-such-page.md",
    "[gone](index.md#no-such-anchor)": "no-such-anchor",
    "[gone](../no-such-file.py)": "no-such-file.py",
    "![gone](no-such-picture.svg)": "no-such-picture.svg",
}


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    """In a site of one page with the settings and the hook of the real one, so that it takes little time."""
    (tmp_path / "src").symlink_to(ROOT / "src")
    (tmp_path / "scripts").mkdir()
    hook = (ROOT / "scripts" / "site_pages.py").read_text("utf-8")
    (tmp_path / "scripts" / "site_pages.py").write_text(re.sub(r"(?s)BESIDE = \(.*?\n\)", "BESIDE = ()", hook))
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    (tmp_path / "mkdocs.yml").write_text(settings[: settings.index("\nnav:")])
    shutil.copytree(ROOT / "docs" / "assets", tmp_path / "docs" / "assets")
    page = tmp_path / "docs" / "index.md"
    page.write_text("# Page\n")
    whole = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    page.write_text("# Page\n\n" + "\n\n".join(BROKEN))
    broken = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert broken.returncode == 1
    for said in BROKEN.values():
        assert f"'{said}'" in broken.stderr or f"#{said}'" in broken.stderr or f"/{said}" in broken.stderr, (
            broken.stderr
        )


def test_the_search_works_in_a_folder_and_everybody_can_read_the_pages(site: Path) -> None:
    binary = chromium()
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            options = {"color_scheme": scheme, "reduced_motion": "reduce"}
            with opened(browser, f"{site.as_uri()}/", **options) as page:
                for name in ("index", "concepts/state", "reference/states", "quick-start"):
                    page.goto(f"{site.as_uri()}/{name}.html")
                    wrong = [said for said in violations(page) if not said.startswith(OF_THE_THEME)]
                    assert not wrong, name
                page.click("input.md-search__input")
                page.keyboard.type("forgetting")
                expect(page.locator(".md-search-result__item").first).to_contain_text("orget")
        browser.close()
