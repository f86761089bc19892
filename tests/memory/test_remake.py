"""What has read a deposit is made again without it: equal, bit for bit, to a memory that never held it."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_refit import SETTINGS, TEXTS
from tiny_memory import check_consistent, chunks, everything, forget_texts, groups, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError, UsageError
from precog.memory import refit
from precog.memory.deposit import deposit
from precog.memory.domains import read_seeds
from precog.memory.emerge import candidates, promote
from precog.memory.history import FitSettings
from precog.memory.keyed import Keyed
from precog.memory.opened import OpenMemory
from precog.memory.prototypes import Prototypes
from precog.memory.refit import fit_memory

LATER = ["The wind blew boat 99 back to the harbour.", "Plums again, in cake 77 of my sister."]
ORCHARD = [f"Quince orchard medlar quince orchard medlar row {n}." for n in range(26)]
SCATTERED = [f"Thing{n * 31} of{n * 17} kind{n * 13} from{n * 7} nowhere{n * 3}." for n in range(20)]
Step = Callable[[OpenMemory], None]


def remembered(texts: list[str], without: set[str]) -> Step:
    """Deposits texts, each at its own time whatever is left out."""

    def step(memory: OpenMemory) -> None:
        utterances = [entry for entry in said(*TEXTS, *LATER, *ORCHARD, *SCATTERED) if entry.text in texts]
        deposit(memory, chunks(memory, [entry for entry in utterances if entry.text not in without]))

    return step


def fitted(how: FitSettings) -> Step:
    def step(memory: OpenMemory) -> None:
        with contextlib.suppress(InputError):  # too little is left, and the seeds stay
            fit_memory(memory, how)

    return step


def promoted(domain: str, name: str, least: int = 20) -> Step:
    def step(memory: OpenMemory) -> None:
        with contextlib.suppress(InputError):  # it does not emerge from what is left
            promote(memory, name, domain, least_members=least)

    return step


def made(folder: Path, backbone: TennsBackbone, steps: list[Step], **how: object) -> OpenMemory:
    memory = open_memory(folder, backbone, **how)
    for step in steps:
        step(memory)
    return memory


@pytest.mark.parametrize(
    ("how", "gone"),
    [
        (SETTINGS[0], {LATER[1]}),
        (SETTINGS[0], set(TEXTS[8:16])),
        (SETTINGS[1], {TEXTS[0], TEXTS[10], LATER[0]}),
        (SETTINGS[2], {TEXTS[3]}),
        (SETTINGS[2], set(TEXTS[:22])),
    ],
)
def test_forgetting_after_a_fit_is_equal_to_a_fit_that_never_saw_it(
    tmp_path: Path, backbone: TennsBackbone, how: FitSettings, gone: set[str]
) -> None:
    def steps(without: set[str]) -> list[Step]:
        return [remembered(TEXTS, without), fitted(how), remembered(LATER, without)]

    with made(tmp_path / "a", backbone, steps(set())) as memory, made(tmp_path / "b", backbone, steps(gone)) as never:
        report = forget_texts(memory, gone, proof=True)
        assert (len(report.ids), report.hits) == (len(gone), 0)
        assert ("prototypes" in report.dropped) == (gone != {LATER[1]})
        assert everything(memory) == everything(never)
        check_consistent(memory)


def test_it_is_equal_when_fitted_after_forgetting_too(tmp_path: Path, backbone: TennsBackbone) -> None:
    gone = {TEXTS[3], TEXTS[20]}
    with (
        made(tmp_path / "a", backbone, [remembered(TEXTS, set()), fitted(SETTINGS[0])]) as memory,
        made(tmp_path / "b", backbone, [remembered(TEXTS, gone), fitted(SETTINGS[1])]) as never,
    ):
        forget_texts(memory, gone)
        fit_memory(memory, SETTINGS[1])
        assert everything(memory) == everything(never)


def test_it_is_equal_after_all_states_have_expired(tmp_path: Path, backbone: TennsBackbone) -> None:
    def expired(memory: OpenMemory) -> None:
        with memory.store.batch() as batch:
            for entry in memory.store.deposits():
                batch.drop_states(entry.id)

    gone = {TEXTS[3], TEXTS[20]}
    with (
        made(tmp_path / "a", backbone, [remembered(TEXTS, set()), fitted(SETTINGS[0]), expired]) as memory,
        made(tmp_path / "b", backbone, [remembered(TEXTS, gone), fitted(SETTINGS[0]), expired]) as never,
    ):
        forget_texts(memory, gone)
        assert everything(memory) == everything(never)


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_was_done_forgetting_undoes_it(tmp_path_factory, backbone: TennsBackbone, data: st.DataObject) -> None:
    folder, texts, least = tmp_path_factory.mktemp("law"), [*TEXTS[6:14], *ORCHARD[:9], *SCATTERED[:6]], 6
    gone = data.draw(st.sets(st.sampled_from([*texts, *LATER]), min_size=1, max_size=5))
    how = data.draw(st.sampled_from([None, FitSettings(per_domain=1, least_members=3), SETTINGS[2]]))
    dials: dict[str, object] = data.draw(st.sampled_from([{}, {"dial_a": "3", "dial_b": "1"}]))
    done: list[Step] = [] if how is None else [fitted(how)]
    with made(folder / "a", backbone, [remembered(texts, set()), *done], threshold=0.5, **dials) as memory:
        if data.draw(st.booleans()):
            found = candidates(memory.store, memory.prototypes, least_members=least)
            promotions = [promoted(entry.domain, entry.name, least) for entry in found]
            for step in promotions:
                step(memory)
            done += promotions
        remembered(LATER, set())(memory)
        forget_texts(memory, gone)
        check_consistent(memory)
        steps = [remembered(texts, gone), *done, remembered(LATER, gone)]
        with made(folder / "b", backbone, steps, threshold=0.5, **dials) as never:
            assert everything(memory) == everything(never)


def test_a_promoted_group_is_made_again_of_what_is_left(tmp_path: Path, backbone: TennsBackbone) -> None:
    texts = [*ORCHARD, *SCATTERED]
    with made(tmp_path / "a", backbone, [remembered(texts, set())], threshold=0.5) as memory:
        [found] = candidates(memory.store, memory.prototypes)
        promote(memory, found.name)
        first = memory.store.deposit(found.member_ids[0])
        assert first is not None
        report = forget_texts(memory, [first.info.text], proof=True)
        assert report.hits == 0
        assert f"a promoted group of {found.domain}" not in report.dropped
        assert memory.prototypes.subclusters[-1].name == found.name
        assert len(list(memory.store.deposits(domain=found.domain, subcluster=found.name))) >= 20
        steps = [remembered(texts, {first.info.text}), promoted(found.domain, found.name)]
        with made(tmp_path / "b", backbone, steps, threshold=0.5) as never:
            assert everything(memory) == everything(never)
        check_consistent(memory)


def test_a_promoted_group_of_too_few_members_goes(tmp_path: Path, backbone: TennsBackbone) -> None:
    with made(tmp_path / "m", backbone, [remembered([*ORCHARD, *SCATTERED], set())], threshold=0.5) as memory:
        before = groups(memory)
        [found] = candidates(memory.store, memory.prototypes)
        promote(memory, found.name)
        report = forget_texts(memory, ORCHARD[:10], proof=True)
        assert report.hits == 0
        assert {"prototypes", f"a promoted group of {found.domain}"} <= set(report.dropped)
        assert memory.prototypes.subclusters == read_seeds()
        assert memory.prototypes.history.promotions == ()
        assert groups(memory) == {text: where for text, where in before.items() if text not in ORCHARD[:10]}
        check_consistent(memory)


@pytest.mark.parametrize("is_fit", [True, False])
def test_names_made_of_what_is_forgotten_are_nowhere(tmp_path: Path, backbone: TennsBackbone, is_fit: bool) -> None:
    with made(
        tmp_path / "m", backbone, [remembered([*TEXTS[:8], *ORCHARD, *SCATTERED], set())], threshold=0.5
    ) as memory:
        if is_fit:
            fit_memory(memory, FitSettings(least_members=4))
        else:
            [found] = candidates(memory.store, memory.prototypes)
            promote(memory, found.name)
        assert any("quince" in entry.name for entry in memory.prototypes.subclusters)
        report = forget_texts(memory, ORCHARD, proof=True)
        assert (len(report.ids), report.hits) == (len(ORCHARD), 0)
        assert "quince" not in json.dumps(report.to_json()).casefold()
    for path in (tmp_path / "m").rglob("*"):
        assert not path.is_file() or b"quince" not in path.read_bytes().lower(), path


def test_without_scikit_learn_forgetting_goes_on(
    tmp_path: Path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(deposits: Keyed, base: Prototypes, how: FitSettings) -> Prototypes:
        raise UsageError("clustering needs a package that is not installed")

    with made(tmp_path / "m", backbone, [remembered(TEXTS, set()), fitted(SETTINGS[0])]) as memory:
        monkeypatch.setattr(refit, "fit", missing)
        report = forget_texts(memory, [TEXTS[4]], proof=True)
        assert report.hits == 0
        assert "the fit of sub-clusters: seeds are used again" in report.dropped
        assert memory.prototypes.subclusters == read_seeds()
        check_consistent(memory)


@pytest.mark.parametrize("is_known_before", [True, False])
def test_a_transcript_that_said_the_same_takes_its_fit_along(
    tmp_path: Path, backbone: TennsBackbone, is_known_before: bool
) -> None:
    deposited, other = remembered(TEXTS[:9], set()), remembered(LATER, set())

    def fitted_to_transcript(memory: OpenMemory) -> None:
        fit_memory(memory, SETTINGS[0], chunks(memory, said(*TEXTS)))

    steps = [deposited, fitted_to_transcript] if is_known_before else [fitted_to_transcript, deposited]
    with made(tmp_path / "m", backbone, [*steps, other]) as memory:
        names = memory.prototypes.subclusters
        forget_texts(memory, [LATER[0]])
        assert memory.prototypes.subclusters == names != read_seeds()  # it had no part in them
        report = forget_texts(memory, [TEXTS[1]], proof=True)
        assert report.hits == 0
        assert "the fit to a transcript that said the same: seeds are used again" in report.dropped
        assert memory.prototypes.subclusters == read_seeds()
        check_consistent(memory)
