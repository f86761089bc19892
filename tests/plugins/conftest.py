import os
from pathlib import Path

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"  # read once, when Haystack is imported

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.cli.main import main
from precog.text.tokenizer import load_mistral_tokenizer

DOCUMENT = "The lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil.\n"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    made = build(TennsConfig.preset("tiny-outer"), 0)
    save_model(folder, made, name="tiny", tokenizer_sha256=load_mistral_tokenizer().sha256)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory, model: Path) -> str:
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "lighthouse.txt").write_text(DOCUMENT)
    with pytest.raises(SystemExit) as end:
        main(["index", str(folder / "lighthouse.txt"), "--corpus", str(folder / "c"), "--model", str(model)])
    assert end.value.code == 0
    return str(folder / "c")


@pytest.fixture(autouse=True)
def home(_own_settings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: Path) -> Path:
    """A home of its own, with the tiny model for whoever names none."""
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRECOG_MODEL", str(model))
    return tmp_path / "home"
