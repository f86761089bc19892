"""A hook of mkdocs: files beside docs/ become pages of the site, and links lead where they lead in the repository.

So every page is written for the repository, and a link that leads nowhere fails the build wherever it stands.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

BESIDE = (
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "THIRD_PARTY.md",
    "demo/SOURCES.md",
    "deploy/*",
    "examples/*",
    "weights/*/*.md",
)
"""What becomes a page, besides docs/."""

PLACE = "repository"
"""Where such pages stand in the site."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)")
_FENCES = {".py": "python", "Dockerfile": "dockerfile", ".service": "ini"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    root = _root(config)
    for pattern in BESIDE:
        found = sorted(path for path in root.glob(pattern) if path.is_file())
        if not found:
            raise FileNotFoundError(f"{pattern}: named in {Path(__file__).name}, and not there")
        for path in found:
            name = path.relative_to(root).as_posix()
            files.append(File.generated(config, _page_of(name), content=_content(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages."""
    here = page.file.src_uri
    origin = here.removeprefix(f"{PLACE}/") if here.startswith(f"{PLACE}/") else f"docs/{here}"

    def turned(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[1]))
        if (_root(config) / target).is_dir():
            target = f"{target}/README.md"
        return posixpath.relpath(_page_of(target), posixpath.dirname(here))

    return _LINK.sub(turned, markdown)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def _page_of(name: str) -> str:
    """Where a file of the repository stands in the site."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return f"{PLACE}/{name}" if name.endswith(".md") else f"{PLACE}/{name}.md"


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# {path.name}\n\n```{_FENCES.get(path.suffix or path.name, 'text')}\n{text.rstrip()}\n```\n"
