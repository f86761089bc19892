"""Where models and adapters are written: nothing of somebody else's is touched, and several writers do not mix."""

import threading
from pathlib import Path

import pytest

from precog.backbones.registry import load_network
from precog.backbones.tenns.adapter import is_adapter, save_adapter
from precog.backbones.tenns.checkpoint import load_model, read_card, read_stored, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.lora import LoraSettings, add_lora, lora_tensors
from precog.backbones.tenns.model import build
from precog.backbones.tenns.target import refuse_existing, written
from precog.errors import ModelError, PrecogError, StorageError, UsageError

CONFIG = TennsConfig.preset("tiny-outer")


def save(folder: Path, name: str = "m", **options: bool) -> None:
    save_model(folder, build(CONFIG), name=name, tokenizer_sha256="t", **options)


def adapt(folder: Path) -> None:
    model, how = build(CONFIG), LoraSettings(rank=2)
    add_lora(model, how, 0)
    save_adapter(folder, lora_tensors(model), how, name="a", base="b", base_fingerprint="f")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model-mine.safetensors", "adapter.json"])
def test_a_model_is_not_written_over_files_of_another_origin(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="not of a model written before"):
        save(tmp_path / "mine")
    assert contents(tmp_path) == before


def test_an_adapter_is_not_written_into_a_model(tmp_path: Path) -> None:
    save(tmp_path / "m")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="not of an adapter written before"):
        adapt(tmp_path / "m")
    assert contents(tmp_path) == before


def test_a_weight_file_of_ones_own_beside_a_model_is_kept(tmp_path: Path) -> None:
    save(tmp_path / "m")
    (tmp_path / "m" / "model-mine.safetensors").write_text("mine")
    with pytest.raises(UsageError, match=r"model-mine\.safetensors"):
        save(tmp_path / "m", "again")
    assert (tmp_path / "m" / "model-mine.safetensors").read_text() == "mine"


def test_what_was_written_before_is_replaced_beside_files_of_other_names(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "LICENSE").write_text("free")
    save(tmp_path / "m", "one")
    save(tmp_path / "m", "two")
    assert load_model(tmp_path / "m")[1].name == "two"
    assert (tmp_path / "m" / "LICENSE").read_text() == "free"
    with pytest.raises(StorageError, match="something else was written there"):
        save(tmp_path / "m", "three", replace_old=False)
    assert load_model(tmp_path / "m")[1].name == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_both_a_model_and_an_adapter_is_neither(tmp_path: Path) -> None:
    save(tmp_path / "m")
    adapt(tmp_path / "a")
    (tmp_path / "a" / "adapter.json").rename(tmp_path / "m" / "adapter.json")
    for read in (load_network, load_model, read_card, read_stored, is_adapter):
        with pytest.raises(ModelError, match="both a model and an adapter"):
            read(tmp_path / "m")


def test_paths_that_something_new_may_not_be_made_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for taken in (".", "/", "..", "source", "nowhere"):
        with pytest.raises(UsageError, match="exists already"):
            refuse_existing(Path(taken))
    with pytest.raises(UsageError, match="no name"):
        refuse_existing(Path("gone/.."))
    with pytest.raises(UsageError, match="inside what it is made of"):
        refuse_existing(Path("source/deeper/out"), Path("source"))
    refuse_existing(Path("source-2"), Path("source"))


def test_of_writers_at_once_one_wins_and_the_others_say_so(tmp_path: Path) -> None:
    together, said = threading.Barrier(3), []

    def write(text: str) -> None:
        try:
            with written(tmp_path / "out", "model", replace=False) as folder:
                (folder / "config.json").write_text(text)
                together.wait(10)
                (folder / "precog.json").write_text(text)
            said.append(text)
        except PrecogError as error:
            said.append(error.message)

    threads = [threading.Thread(target=write, args=(text,)) for text in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [text for text in said if len(text) == 1]
    assert said.count("something else was written there meanwhile") == 2
    assert contents(tmp_path) == {"out/config.json": winner.encode(), "out/precog.json": winner.encode()}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_process_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    for name in (".m.0123abcd.partial", ".m.notes.partial", ".other.0123abcd.partial"):
        (tmp_path / name).mkdir()
    save(tmp_path / "m")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".m.notes.partial", ".other.0123abcd.partial", "m"]


def test_names_that_are_no_unicode(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="name is not valid Unicode"):
        save(tmp_path / "m", "\udcff")
    model, how = build(CONFIG), LoraSettings(rank=2)
    add_lora(model, how, 0)
    with pytest.raises(ModelError, match="base is not valid Unicode"):
        save_adapter(tmp_path / "a", lora_tensors(model), how, name="a", base="\udcff", base_fingerprint="f")
    assert not list(tmp_path.iterdir())
    save_model(tmp_path / "m", model=build(CONFIG), name="m", tokenizer_sha256="t", notes={"data": "\udcff.jsonl"})
    assert read_card(tmp_path / "m")[0].notes == {"data": "\udcff.jsonl"}
