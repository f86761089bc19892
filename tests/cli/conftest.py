from pathlib import Path

import pytest
from ended import Run, runner

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def save_tiny(folder: Path, seed: int = 0) -> Path:
    model = build(TennsConfig.preset("tiny-outer"), seed)
    save_model(folder, model, name="tiny", tokenizer_sha256=load_mistral_tokenizer().sha256)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "other", seed=1)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "lighthouse.md").write_text(
        "# Buildings\n\nThe lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil.\n"
    )
    (folder / "mill.txt").write_text("A mill stands on the river Ouse. Tom Reed made its wheel of oak in 1790.\n")
    return folder


@pytest.fixture
def corpus(tmp_path: Path, docs: Path, model: Path, run: Run) -> Path:
    assert run("index", docs, "--corpus", tmp_path / "c", "--model", model).status == 0
    return tmp_path / "c"
