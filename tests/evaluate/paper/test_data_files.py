"""Which files are taken for which data set, and what is said when one is missing."""

from pathlib import Path

import pytest

from precog.errors import InputError, UsageError
from precog.evaluate.paper.data_files import DATA_SETS, find_data


@pytest.mark.parametrize("below", ["", "qa", "squad"])
@pytest.mark.parametrize("name", DATA_SETS["squad"].names)
def test_a_data_set_is_found_under_its_names_and_in_the_usual_folders(tmp_path: Path, below: str, name: str) -> None:
    path = tmp_path / below / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    found = find_data(tmp_path, ["squad"])
    assert found["squad"] == path
    assert not found.shipped


@pytest.mark.parametrize("key", DATA_SETS)
def test_a_missing_data_set_is_named_with_where_to_get_it_and_what_to_call_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError) as raised:
        find_data(tmp_path, [key])
    told = str(raised.value)
    entry = DATA_SETS[key]
    assert "\n" not in told
    for part in (entry.title, entry.source, *entry.names, str(tmp_path)):
        assert part in told


def test_a_folder_that_is_not_there_is_no_missing_data_set(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        find_data(tmp_path / "nowhere", ["squad"])


@pytest.mark.parametrize("key", DATA_SETS)
def test_every_data_set_has_a_sample_that_is_shipped(key: str) -> None:
    found = find_data(None, [key])
    assert found.shipped
    assert found[key].stat().st_size > 1000
