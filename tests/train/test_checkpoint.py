"""Checkpoints outlive kills, strays and damage: what is not whole is named, and nothing that is gets lost."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from precog.errors import StorageError, TrainingError
from precog.train.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from precog.train.seal import sealed

RECORD = {"settings": {}, "tokens_seen": 5, "window": []}


def made(value=0.0):
    """A model and an optimiser that has made a step."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.ones(1, 4)).sum().backward()
    optimiser.step()
    with torch.no_grad():
        model.weight += value
    return model, [optimiser]


def saved(folder, step, value=0.0, **more):
    model, optimisers = made(value)
    return save_checkpoint(folder, step, model, optimisers, RECORD, **more)


def copied(path, name):
    """Another whole checkpoint beside one, as a kill leaves it behind."""
    other = path.with_name(name)
    shutil.copytree(path, other)
    record = json.loads((other / "record.json").read_text())
    (other / "record.json").write_text(json.dumps(sealed({**record, "step": int(name[-8:])})))
    return other


def names(folder):
    return sorted(path.name for path in folder.glob("*step-*"))


def test_a_save_at_a_lower_step_keeps_what_latest_names(tmp_path):
    first = saved(tmp_path, 4)
    copied(first, "step-00000006")  # killed before `latest` named it
    (tmp_path / "step-00000099").mkdir()
    assert latest_checkpoint(tmp_path) == first
    assert saved(tmp_path, 5).name == "step-00000005"
    assert names(tmp_path) == ["step-00000005"]
    assert latest_checkpoint(tmp_path).name == "step-00000005"


def test_more_than_one_is_kept_where_that_is_wanted(tmp_path):
    for step in (1, 2, 3):
        saved(tmp_path, step, keep=2)
    assert names(tmp_path) == ["step-00000002", "step-00000003"]


@pytest.mark.parametrize("after", range(4))
def test_saving_a_step_again_can_be_killed_anywhere(after, tmp_path, monkeypatch):
    """The disk refuses after some renames, as if the process had been killed there."""
    saved(tmp_path, 4)
    left = [after]

    def counted(kind):
        plain = getattr(Path, kind)

        def method(self, target):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(5, "killed")
            return plain(self, target)

        monkeypatch.setattr(Path, kind, method)

    counted("rename")
    counted("replace")
    if after < 3:
        with pytest.raises(StorageError, match="killed"):
            saved(tmp_path, 4, 1.0)
    else:
        saved(tmp_path, 4, 1.0)
        assert names(tmp_path) == ["step-00000004"]
    monkeypatch.undo()
    path = latest_checkpoint(tmp_path)
    model, optimisers = made(9.0)
    assert load_checkpoint(path, model, optimisers)["step"] == 4
    wanted = made(0.0 if after < 2 else 1.0)[0].weight
    assert torch.equal(model.weight, wanted)
    saved(tmp_path, 5)
    assert names(tmp_path) == ["step-00000005"]


def test_the_same_step_with_the_same_content_is_left_as_it_is(tmp_path):
    path = saved(tmp_path, 4)
    before = path.stat().st_ino
    assert saved(tmp_path, 4) == path
    assert path.stat().st_ino == before
    assert latest_checkpoint(tmp_path) == path


@pytest.mark.parametrize(
    "pointer", [None, b"\0\0\0", b"\xff\xfe", b"step-00000077", b"../elsewhere", b"", "folder"], ids=str
)
def test_without_a_good_pointer_the_newest_whole_checkpoint_is_used(pointer, tmp_path):
    folder = tmp_path / "run"
    path = saved(folder, 4)
    copied(path, "step-00000003")
    shutil.copytree(path, tmp_path / "elsewhere")
    (copied(path, "step-00000006") / "optimiser.safetensors").unlink()
    (folder / "latest").unlink()
    if pointer == "folder":
        (folder / "latest").mkdir()
    elif pointer is not None:
        (folder / "latest").write_bytes(pointer)
    told = []
    assert latest_checkpoint(folder, told.append) == path
    assert told == [f"`latest` names no checkpoint; going on from {path}, the newest that is whole"]
    assert len(names(folder)) == 3
    saved(folder, 5)
    assert latest_checkpoint(folder).name == "step-00000005"


def test_a_pointer_to_nothing_is_no_new_run(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "none") is None
    (tmp_path / "latest").write_text("step-00000004")
    with pytest.raises(TrainingError, match="no checkpoint of this run can be used"):
        latest_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "average.safetensors", "record.json"])
def test_a_flipped_bit_is_found_and_the_one_before_is_used(name, tmp_path):
    older = saved(tmp_path, 3, average={"weight": torch.ones(4)})
    path = copied(older, "step-00000004")
    (tmp_path / "latest").write_text(path.name)
    file = path / name
    data = bytearray(file.read_bytes())
    if name == "record.json":
        data = bytearray(data.replace(b'"tokens_seen": 5', b'"tokens_seen": 7'))
    else:
        data[-3] ^= 1
    file.write_bytes(data)
    told = []
    assert latest_checkpoint(tmp_path, told.append) == older
    assert len(told) == 1
    assert str(file) in told[0]
    assert "is not what was written" in told[0]
    shutil.rmtree(older)
    with pytest.raises(TrainingError, match=r"is not what was written.*nothing was deleted"):
        latest_checkpoint(tmp_path)
    assert names(tmp_path) == ["step-00000004"]


@pytest.mark.parametrize(
    "text", ["[]", "[" * 100_000, "{", "", "\0", '{"step": 4}', "null", "3", '{"a": ' * 50_000, "9" * 5000]
)
def test_a_record_that_is_none(text, tmp_path):
    path = saved(tmp_path, 4)
    (path / "record.json").write_text(text)
    with pytest.raises(TrainingError, match="no checkpoint of this run can be used"):
        latest_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"step": "4"}, {"step": 99}, {"step": None}, {"step": -4}, {"step": True}, {"tokens_seen": "5"},
        {"window": 3}, {"window": [3]}, {"window": [["x"]]}, {"optimiser_scalars": []},
        {"optimiser_scalars": {"0.0.step": "x"}}, {"files": []}, {"files": {"../x": ""}}, {"files": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_sealed_record_that_no_run_writes(change, tmp_path):
    path = saved(tmp_path, 4)
    record = json.loads((path / "record.json").read_text())
    (path / "record.json").write_text(json.dumps(sealed({**record, **change})))
    with pytest.raises(TrainingError, match=f"damaged: .*{next(iter(change))}"):
        latest_checkpoint(tmp_path)


def test_a_checkpoint_without_digests_is_refused_with_a_way_on(tmp_path):
    path = saved(tmp_path, 4)
    record = json.loads((path / "record.json").read_text())
    old = {key: value for key, value in record.items() if key not in ("files", "sha256")}
    (path / "record.json").write_text(json.dumps(old))
    with pytest.raises(TrainingError, match="without digests") as error:
        latest_checkpoint(tmp_path)
    assert error.value.hint.endswith(f"--initial {path / 'model.safetensors'}")


def test_files_of_another_kind_of_run_are_refused(tmp_path):
    path = saved(tmp_path, 4)
    model, optimisers = made()
    with pytest.raises(TrainingError, match="does not fit this run"):
        load_checkpoint(path, model, optimisers, {"weight": torch.ones(4)})
