"""Seeds are a file that people edit: what it says is read as it stands, and a mistake is named with its place."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from precog.errors import InputError
from precog.memory.domains import DOMAINS, OTHERS, SubCluster, read_seeds


def form() -> dict[str, Any]:
    return {
        "version": 1,
        "domains": {
            domain: [{"name": "one", "kind": "A", "seeds": [f"{domain} a", f"{domain} b"]}] for domain in DOMAINS
        },
    }


def written(folder: Path, document: object) -> Path:
    path = folder / "seeds.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def test_the_bundled_seeds_fill_every_domain() -> None:
    seeds = read_seeds()
    per_domain = Counter(subcluster.domain for subcluster in seeds)
    assert tuple(per_domain) == DOMAINS
    assert all(8 <= count <= 10 for count in per_domain.values())
    for domain in DOMAINS:
        kinds = {subcluster.kind for subcluster in seeds if subcluster.domain == domain}
        assert kinds == {"A", "B"}, domain
    for subcluster in seeds:
        assert 6 <= len(subcluster.seeds) <= 12, subcluster.name
        for sentence in subcluster.seeds:
            assert len(sentence.split()) >= 3, sentence
            assert re.search(r"[.!?]$", sentence), sentence


def test_a_file_is_read_in_the_order_of_the_domains(tmp_path: Path) -> None:
    document = form()
    document["domains"] = dict(reversed(document["domains"].items()))
    seeds = read_seeds(written(tmp_path, document))
    assert [subcluster.domain for subcluster in seeds] == list(DOMAINS)
    assert seeds[0] == SubCluster("emotional", "one", "A", ("emotional a", "emotional b"))


def changed(change: str) -> object:
    document = form()
    social = document["domains"]["social"]
    match change:
        case "a key too many":
            social[0]["sort"] = "A"
        case "a key too few":
            del social[0]["kind"]
        case "a domain too many":
            document["domains"]["musical"] = social
        case "a domain too few":
            del document["domains"]["social"]
        case "an empty domain":
            document["domains"]["social"] = []
        case "no seeds":
            social[0]["seeds"] = []
        case "an empty seed":
            social[0]["seeds"][1] = "  "
        case "half a character":
            social[0]["seeds"][1] = "a \ud800"
        case "a seed that is a number":
            social[0]["seeds"][1] = 7
        case "a kind of another name":
            social[0]["kind"] = "C"
        case "a kind that is a list":
            social[0]["kind"] = ["A"]
        case "the same name twice":
            social.append({"name": "one", "kind": "B", "seeds": ["c"]})
        case "the same seed twice":
            social.append({"name": "two", "kind": "B", "seeds": ["social a"]})
        case "the reserved name":
            social[0]["name"] = "Others"
        case "another version":
            document["version"] = 2
        case "a version that is true":
            document["version"] = True
        case "no object":
            return [document]
        case "an entry that is a text":
            social[0] = "one"
    return document


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("a key too many", "unknown.*social, entry 1: 'sort'"),
        ("a key too few", "missing.*social, entry 1: 'kind'"),
        ("a domain too many", "unknown.*'musical'"),
        ("a domain too few", "missing.*'social'"),
        ("an empty domain", "social"),
        ("no seeds", r"social, entry 1 \(one\)"),
        ("an empty seed", r"social, entry 1 \(one\), seed 2"),
        ("half a character", r"social, entry 1 \(one\), seed 2"),
        ("a seed that is a number", r"social, entry 1 \(one\), seed 2"),
        ("a kind of another name", "social, entry 1"),
        ("a kind that is a list", "social, entry 1"),
        ("the same name twice", "social ▸ one"),
        ("the same seed twice", "'social a' in social ▸ one and in social ▸ two"),
        ("the reserved name", "social ▸ 'Others'"),
        ("another version", "version.*2"),
        ("a version that is true", "version.*True"),
        ("no object", "an object"),
        ("an entry that is a text", "social, entry 1"),
    ],
)
def test_a_mistake_is_named_with_its_place(change: str, told: str, tmp_path: Path) -> None:
    path = written(tmp_path, changed(change))
    with pytest.raises(InputError, match=told) as error:
        read_seeds(path)
    assert str(path) in str(error.value) or change == "the reserved name"
    assert "\n" not in str(error.value)


def test_a_name_given_twice_in_one_object_is_not_the_last_one(tmp_path: Path) -> None:
    text = json.dumps(form()).replace('"social":', '"social": [], "social":')
    with pytest.raises(InputError, match=r"twice.*social"):
        read_seeds(written(tmp_path, text))


def test_no_json_and_no_file_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no JSON"):
        read_seeds(written(tmp_path, '{"version": 1,'))
    with pytest.raises(InputError, match="no JSON"):
        read_seeds(written(tmp_path, "[" * 100_000))
    with pytest.raises(InputError, match="cannot be read"):
        read_seeds(tmp_path / "nowhere.json")


@pytest.mark.parametrize("name", ["", " ", " a", OTHERS, "OTHERS"])
def test_a_subcluster_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InputError, match="name of its own"):
        SubCluster("social", name, "A")
