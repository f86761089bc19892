from pathlib import Path

import pytest

from precog.config import CONFIG_FILE, HOME, VARIABLES, Settings, resolve
from precog.errors import UsageError


def home(folder: Path, text: str) -> dict[str, str]:
    (folder / CONFIG_FILE).write_text(text)
    return {HOME: str(folder)}


def test_flag_before_environment_before_file_before_default(tmp_path: Path) -> None:
    environment = home(tmp_path, 'model = "file"\nthreads = 3\ndevice = "cpu"\n')
    assert resolve({}, {HOME: str(tmp_path / "none")}).device == "auto"
    assert resolve({}, environment) == Settings(tmp_path, model="file", device="cpu", threads=3)
    environment |= {"PRECOG_MODEL": "environment", "PRECOG_THREADS": "4"}
    assert resolve({}, environment).model == "environment"
    assert resolve({"model": "flag", "threads": None}, environment) == Settings(tmp_path, "flag", "cpu", 4)
    assert resolve({}, environment | {"PRECOG_MODEL": ""}).model == "file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('modle = "x"', "modle"),
        ("threads = 0", "threads"),
        ("threads = true", "threads"),
        ('retrieval = "magic"', "hybrid or dense or bm25"),
        ("debug = 3", "true or false"),
        ("model = 7", "model"),
        ("model = ", "cannot be read"),
    ],
)
def test_a_wrong_config_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve({}, home(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "value"), [("PRECOG_THREADS", "many"), ("PRECOG_DEVICE", "abacus"), ("PRECOG_DEBUG", "maybe")]
)
def test_a_wrong_variable_is_refused_by_its_name(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        resolve({}, {HOME: str(tmp_path), name: value})


def test_every_variable_has_a_name_of_its_own_and_an_explanation() -> None:
    assert len({variable.environment for variable in VARIABLES}) == len(VARIABLES)
    assert all(variable.meaning and variable.environment.startswith("PRECOG_") for variable in VARIABLES)


def test_a_corpus_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="PRECOG_CORPUS"):
        _ = resolve({}, {HOME: str(tmp_path)}).corpus_folder
    assert resolve({"corpus": "~/c"}, {HOME: str(tmp_path)}).corpus_folder == Path.home() / "c"


@pytest.mark.parametrize("below", ["", "below"])
def test_a_home_that_is_no_folder_is_told_as_that(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / below
    match = r"the home of PRECOG is no folder.*PRECOG_HOME says so.*set PRECOG_HOME"
    with pytest.raises(UsageError, match=match) as told:
        resolve({}, {HOME: str(place)})
    assert str(place) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_config_file_that_is_none_is_told_with_what_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".precog" / CONFIG_FILE).mkdir(parents=True)
    with pytest.raises(UsageError, match=r"PRECOG_HOME says so.*; expected: a TOML file; .*another folder"):
        resolve({}, {HOME: str(tmp_path / ".precog")})
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="PRECOG_HOME is not set"):
        resolve({}, {})
