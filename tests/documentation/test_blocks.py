"""Code in the documentation: Python compiles and finds what it imports, and runs where nothing says why it does not."""

import ast
import json
import re
import shutil
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from blocks import NOT_RUN, ROOT, Block, blocks_of, name_of, pages

from precog.backbones.registry import installed_models
from precog.corpus.indexing import IndexRequest, index_documents

PYTHON = [block for page in pages() for block in blocks_of(page, "python")]
RUNNABLE = [page for page in pages() if any(block.is_run for block in blocks_of(page, "python"))]
NEEDS_MODEL = pytest.mark.skipif("tenns-base" not in installed_models(), reason="the shipped model is not installed")


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles_and_its_imports_are_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text, str(block))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = import_module(node.module)
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            assert not missing, f"{node.module} has no {missing}"


@pytest.mark.parametrize("block", [block for block in PYTHON if block.note], ids=str)
def test_what_is_not_run_has_a_reason(block: Block) -> None:
    assert re.fullmatch(rf"{NOT_RUN} \w.{{10,}}", block.note)


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples of the reference say that they find: `bhutan.pdf` and the corpus `papers` of it."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copy(ROOT / "demo" / "documents" / "bhutan.pdf", folder)
    index_documents(IndexRequest(paths=(str(folder / "bhutan.pdf"),), corpus=folder / "papers"))
    return folder


@NEEDS_MODEL
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_examples_of_a_page_run(page: Path, papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(papers, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks_of(page, "python"):
        if block.is_run:
            exec(compile(block.text, str(block), "exec"), names)


def test_the_reference_begins_with_an_example_that_runs() -> None:
    pages_of_reference = sorted((ROOT / "docs" / "reference").glob("*.md"))
    assert len(pages_of_reference) > 5
    for page in pages_of_reference:
        assert page.name == "index.md" or page in RUNNABLE, page


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_data_in_blocks_can_be_read(page: Path) -> None:
    for block in blocks_of(page, "json", "yaml", "toml"):
        read = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}[block.language]
        try:
            read(block.text)
        except (ValueError, yaml.YAMLError) as error:
            pytest.fail(f"{block}: {error}")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_is_closed_and_says_what_it_is(page: Path) -> None:
    fences = re.findall(r"^[ ]*```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert not any(fences[1::2])
    known = {"", "console", "sh", "bash", "python", "json", "yaml", "toml", "dockerfile", "ini"}
    assert set(fences[::2]) <= known
