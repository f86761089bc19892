"""Prototypes are means of keys, kept bit for bit, and refuse what they cannot be compared with."""

import json
from typing import Any

import numpy as np
import pytest
from made_keys import DIM, CountingEncoder, random_prototypes, unit

from precog.encoders import load_encoder
from precog.errors import EncoderError, InputError
from precog.memory.domains import DOMAINS, OTHERS, SubCluster, read_seeds
from precog.memory.history import History
from precog.memory.prototypes import Prototypes, from_seeds, mean_key, own_prototypes
from precog.memory.routing import route


def seeds() -> list[SubCluster]:
    long = "many words that go on and on until one window of twelve is not enough for them"
    return [SubCluster(d, n, "A", (f"{d} {n} x", f"{d} {n} y", long)) for d in DOMAINS for n in ("one", "two")]


def test_a_prototype_is_the_mean_of_its_seeds() -> None:
    encoder = CountingEncoder()
    made = from_seeds(seeds(), encoder)
    assert made.domains == DOMAINS
    assert made.encoder_fingerprint == encoder.fingerprint
    assert made.members == ((),) * 10
    for row, subcluster in enumerate(made.subclusters):
        keys = []
        for seed in subcluster.seeds:
            windows = encoder.encode_passages([seed])[0]
            keys.append(unit(windows.mean(axis=0)))
        np.testing.assert_allclose(made.keys[row], unit(np.mean(keys, axis=0)), atol=1e-6)
    for number, domain in enumerate(DOMAINS):
        keys = []
        for subcluster in made.subclusters:
            if subcluster.domain == domain:
                keys += [unit(encoder.encode_passages([seed])[0].mean(axis=0)) for seed in subcluster.seeds]
        np.testing.assert_allclose(made.domain_keys[number], unit(np.mean(keys, axis=0)), atol=1e-6)


def test_seeds_that_give_no_prototype_are_refused() -> None:
    encoder = CountingEncoder()
    with pytest.raises(InputError, match=r"no seeds.*social ▸ bare"):
        from_seeds([*seeds(), SubCluster("social", "bare", "B")], encoder)
    with pytest.raises(InputError, match=r"no sub-clusters.*spatial"):
        from_seeds([s for s in seeds() if s.domain != "spatial"], encoder)


def test_a_mean_key_has_unit_norm_and_there_is_one() -> None:
    keys = unit(np.random.default_rng(0).normal(size=(5, DIM)))
    assert abs(np.linalg.norm(mean_key(keys)) - 1) < 1e-6
    np.testing.assert_array_equal(mean_key(keys[:1]), unit(keys[0].astype(np.float64)))
    for nothing in (keys[:0], np.stack([keys[0], -keys[0]])):
        with pytest.raises(InputError, match="no mean"):
            mean_key(nothing)


def test_json_keeps_every_bit() -> None:
    made = random_prototypes(1)
    text = json.dumps(made.to_json())
    back = Prototypes.from_json(json.loads(text))
    np.testing.assert_array_equal(back.keys, made.keys)
    np.testing.assert_array_equal(back.domain_keys, made.domain_keys)
    assert (back.domains, back.subclusters, back.members) == (made.domains, made.subclusters, made.members)
    assert back.encoder_fingerprint == made.encoder_fingerprint
    assert json.dumps(back.to_json()) == text


def test_a_document_of_the_first_version_has_no_history() -> None:
    made = random_prototypes(1)
    table = made.to_json()
    del table["history"]
    back = Prototypes.from_json({**table, "version": 1})
    assert back.history == History()
    assert back.to_json() == made.to_json()


def test_prototypes_without_subclusters_can_be_kept() -> None:
    made = random_prototypes(1, (0, 0, 0, 0, 0))
    back = Prototypes.from_json(made.to_json())
    assert back.keys.shape == (0, DIM)


def broken(change: str) -> dict[str, Any]:
    table: Any = random_prototypes(1).to_json()
    match change:
        case "key too many":
            table["more"] = 1
        case "key too few":
            del table["subclusters"][2]["members"]
        case "version":
            table["version"] = 3
        case "version true":
            table["version"] = True
        case "format":
            table["format"] = "other"
        case "no base64":
            table["subclusters"][0]["key"] = "äää"
        case "short key":
            table["domains"][0]["key"] = table["domains"][0]["key"][:8]
        case "no unit":
            table["domains"][0]["key"] = "AAAA" * (DIM // 3 * 4)
        case "dim":
            table["dim"] = "48"
        case "dim zero":
            table["dim"] = 0
        case "name twice":
            table["subclusters"][1]["name"] = table["subclusters"][0]["name"]
        case "strange domain":
            table["subclusters"][1]["domain"] = "musical"
        case "members":
            table["subclusters"][1]["members"] = [1, True]
        case "kind":
            table["subclusters"][1]["kind"] = ["A"]
        case "list":
            table["domains"] = {}
        case "version of no history":
            table["version"] = 1
        case "no history":
            table["history"] = None
        case "no domains":
            table["domains"], table["subclusters"] = [], []
    return table  # type: ignore[no-any-return]  # a document, broken on purpose


@pytest.mark.parametrize(
    "change",
    [
        "key too many",
        "key too few",
        "version",
        "version true",
        "format",
        "no base64",
        "short key",
        "no unit",
        "dim",
        "dim zero",
        "name twice",
        "strange domain",
        "members",
        "kind",
        "list",
        "version of no history",
        "no history",
        "no domains",
    ],
)
def test_what_is_no_document_of_prototypes_is_refused(change: str) -> None:
    with pytest.raises(InputError) as error:
        Prototypes.from_json(broken(change))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("document", [None, [], "text", 7])
def test_no_object_is_refused(document: object) -> None:
    with pytest.raises(InputError, match="prototypes cannot be read"):
        Prototypes.from_json(document)


def test_a_key_that_is_not_finite_is_refused() -> None:
    made = random_prototypes(1)
    keys = made.keys.copy()
    keys[3, 0] = np.nan
    with pytest.raises(InputError, match="no unit vector"):
        Prototypes(made.domains, made.domain_keys, made.subclusters, keys, "", made.members)


def test_rows_members_and_changes() -> None:
    made = random_prototypes(2)
    assert made.rows_of("social") == [4, 5, 6, 7]
    assert made.rows_of("spatial") == []
    with pytest.raises(InputError, match="no such domain"):
        made.rows_of("musical")
    left = made.without([4, 5])
    assert [row for row, members in enumerate(made.members) if 5 in members] == [4, 5]
    assert not any(5 in members for members in left.members)
    assert left.rows_of("social") == [4, 5]
    np.testing.assert_array_equal(left.keys, np.delete(made.keys, [4, 5], axis=0))
    grown = left.extended(SubCluster("spatial", "new", "A"), made.keys[0], (7, 9))
    assert grown.rows_of("spatial") == [len(left.subclusters)]
    assert grown.members[-1] == (7, 9)
    with pytest.raises(InputError, match=r"twice.*spatial ▸ new"):
        grown.extended(SubCluster("spatial", "new", "B"), made.keys[1])
    with pytest.raises(InputError, match="another width"):
        left.extended(SubCluster("spatial", "new", "A"), unit(np.ones(DIM + 1)))


def test_keys_of_another_encoder_are_not_compared() -> None:
    made = random_prototypes(2)
    made.check_encoder(CountingEncoder())
    other = CountingEncoder()
    other.fingerprint = "0" * 64
    with pytest.raises(EncoderError, match=r"another sentence encoder.*000000000000"):
        made.check_encoder(other)


def test_the_bundled_encoder_and_seeds_route_plain_sentences() -> None:
    encoder = load_encoder()
    made = from_seeds(read_seeds(), encoder)
    expected = {
        "My grandfather died last night and I can't stop crying.": ("emotional", "grief and loss"),
        "The essay has to be handed in by midnight.": ("temporal", "deadlines"),
        "My two cousins and my aunt came to visit.": ("social", "parents, children and relatives"),
        "The scissors are in the drawer below the sink.": ("spatial", "where things are"),
        "The error light of pump two is on, pressure 3.1 bar.": (
            "factual",
            "faults, readings and switches",
        ),
        "Simmer the onions in butter before you add the rice.": ("factual", "food and cooking"),
    }
    found = {}
    for text in expected:
        chosen = route(mean_key(encoder.encode_passages([text])[0]), made)
        found[text] = (chosen.domain, chosen.subcluster)
    assert found == expected
    vague = route(encoder.encode_query("the of and to in is it"), made)
    assert vague.subcluster == OTHERS or vague.probability < 0.5


def test_those_of_the_program_are_made_once_for_an_encoder() -> None:
    class Once(CountingEncoder):
        fingerprint = "c" * 64

    class Never(Once):
        def encode_passages(self, texts: list[str]) -> list[np.ndarray]:
            raise AssertionError("they were made before")

    made = own_prototypes(Once())
    assert own_prototypes(Never()) is made
    assert np.array_equal(made.keys, from_seeds(read_seeds(), Once()).keys)
