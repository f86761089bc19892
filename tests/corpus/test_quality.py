import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pretended_study import SPOILT, PretendedStudy
from tiny_corpus import WordEncoder, checksum, numbered, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.corpus import corpus as corpus_module
from precog.corpus import indexing as indexing_module
from precog.corpus import reindex as reindex_module
from precog.corpus import unit
from precog.corpus import verify as verify_module
from precog.corpus import writer as writer_module
from precog.corpus.ask import Asker, AskOptions
from precog.corpus.corpus import settings_of
from precog.corpus.forget import forget_document
from precog.corpus.indexing import IndexRequest, index_documents
from precog.corpus.reindex import ReindexRequest, reindex
from precog.corpus.report import IngestReport
from precog.corpus.settings import CorpusSettings
from precog.corpus.verify import verify_corpus
from precog.errors import DamagedCorpusError, UsageError
from precog.records import ModelChoice
from precog.refine import study as study_module
from precog.refine.choice import CPU_SECONDS
from precog.refine.study import StudySettings
from precog.store import CorpusStore, Location, Record
from precog.store.record import relocate

MILL = "A mill stands on the river Ouse. Its wheel was made of oak by Tom Reed in 1790."
STEPS = 6
STUDY = {"quality": "study", "study_steps": STEPS}


class OtherEncoder(WordEncoder):
    fingerprint = "0" * 64


@pytest.fixture(autouse=True)
def _word_keys_and_small_units(monkeypatch: pytest.MonkeyPatch, encoder: WordEncoder) -> None:
    monkeypatch.setattr(unit, "UNIT_CHUNKS", 4)
    monkeypatch.setattr(writer_module, "readable_parts", lambda *_: iter(()))  # parts have tests of their own
    for module in (corpus_module, indexing_module, reindex_module):
        monkeypatch.setattr(module, "load_encoder", lambda spec: OtherEncoder() if spec == "other" else encoder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, backbone: TennsBackbone) -> ModelChoice:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(folder, backbone.model, name="tiny", tokenizer_sha256=backbone.tokenizer.sha256)
    return ModelChoice(str(folder), "cpu")


@pytest.fixture
def studying(monkeypatch: pytest.MonkeyPatch) -> PretendedStudy:
    pretended = PretendedStudy()
    monkeypatch.setattr(study_module, "study", pretended)
    monkeypatch.setattr(study_module, "check_can_study", lambda _backbone: None)
    return pretended


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs", "mill.md", f"# Buildings\n\n{MILL}\n\n{numbered(90, 2)}\n")
    return write(tmp_path / "docs", "ships.txt", numbered(0, 24)).parent


def index(docs: Path, corpus: Path, model: ModelChoice, **wanted: object) -> IngestReport:
    new = {} if corpus.exists() else {"chunk_tokens": 64, "codec": "fp32"}
    return index_documents(IndexRequest((str(docs),), corpus, model=model, wanted={**new, **wanted}))


def records(corpus: Path) -> list[Record]:
    with CorpusStore.open(corpus) as store:
        return [store.read_state(chunk_id) for chunk_id in store.visible_chunk_ids()]


def settings(corpus: Path) -> CorpusSettings:
    with CorpusStore.open(corpus) as store:
        return settings_of(store)


def test_states_are_studied_on_their_own_text_and_say_so(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "fast", model)
    report = index(docs, tmp_path / "c", model, quality="study", study_steps=7, study_seconds=2.5)
    read, refined = records(tmp_path / "fast"), records(tmp_path / "c")
    assert [record.refined for record in refined] == [True] * len(read)
    assert not any(record.refined for record in read)
    for one, other in zip(read, refined, strict=True):
        np.testing.assert_allclose(other.state.view("<f4"), 1.25 * one.state.view("<f4"), rtol=1e-6)
        assert (one.token_ids == other.token_ids).all()
        assert (one.suffix_array == other.suffix_array).all()
    assert (report.study.studied, report.study.refined, report.study.kept) == (len(read), len(read), {})
    assert report.to_json()["studied"] == report.to_json()["refined"] == len(read)
    assert set(studying.settings) == {StudySettings(7, 2.5)}
    assert MILL in studying.texts[0]
    assert studying.titles[:2] == ["", "Buildings"]  # what stands before a chunk's own text
    assert [list(record.token_ids) for record in refined] == studying.token_ids


def test_a_state_that_is_no_better_stays_as_it_was_read(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    write(docs, "other.txt", f"This one was {SPOILT} by Ada Quill.")
    report = index(docs, tmp_path / "c", model, **STUDY)
    assert report.study.kept == {"not a number": 1}
    assert report.study.refined == report.study.studied - 1
    assert [record.refined for record in records(tmp_path / "c")].count(False) == 1
    with CorpusStore.open(tmp_path / "c") as store:
        assert len(store.refined()) == report.study.refined


def test_later_runs_study_as_the_first_did(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "c", model, **STUDY)
    made = settings(tmp_path / "c")
    assert (made.quality, made.encode_mode) == ("study", "once")
    assert (made.study_steps, made.study_seconds) == (STEPS, CPU_SECONDS)
    write(docs, "later.txt", "The bridge of Sark was drawn by Eve Long.")
    studying.texts.clear()
    index(docs, tmp_path / "c", model)
    assert studying.texts == ["The bridge of Sark was drawn by Eve Long."]
    assert all(record.refined for record in records(tmp_path / "c"))
    assert len(set(studying.settings)) == 1
    index(docs, tmp_path / "c", model, quality="study", study_steps=STEPS)  # contradicts nothing
    with pytest.raises(UsageError, match="another --study-steps") as error:
        index(docs, tmp_path / "c", model, study_steps=3)
    assert error.value.hint is not None
    assert error.value.hint.endswith("--study-steps 3")


def test_an_interruption_leaves_what_was_committed_and_the_next_run_goes_on(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "whole", model, **STUDY)
    studying.stops_at = len(studying.settings) + 2
    with pytest.raises(KeyboardInterrupt):
        index(docs, tmp_path / "c", model, **STUDY)
    with CorpusStore.open(tmp_path / "c") as store:
        assert store.size().num_chunks == store.size().num_states == 4
    num_before = len(studying.texts)
    index(docs, tmp_path / "c", model)
    assert len(studying.texts) - num_before == len(records(tmp_path / "c")) - 4
    assert checksum(tmp_path / "c") == checksum(tmp_path / "whole")


def test_an_interrupted_reindex_leaves_the_corpus_and_goes_on(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "c", model)
    before = checksum(tmp_path / "c")
    studying.stops_at = 2
    with pytest.raises(KeyboardInterrupt):
        reindex(ReindexRequest(tmp_path / "c", wanted=STUDY))
    assert checksum(tmp_path / "c") == before
    report = reindex(ReindexRequest(tmp_path / "c", wanted=STUDY))
    assert report.study.refined == len(records(tmp_path / "c")) - 4
    index(docs, tmp_path / "whole", model, **STUDY)
    assert checksum(tmp_path / "c") == checksum(tmp_path / "whole")


def test_a_corpus_is_made_plain_again_and_back(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "c", model)
    plain, corpus = checksum(tmp_path / "c"), tmp_path / "c"
    reindex(ReindexRequest(corpus, wanted={**STUDY, "study_steps": 9}))
    studied = checksum(corpus)
    assert all(record.refined for record in records(corpus))
    assert settings(corpus).study_steps == 9
    reindex(ReindexRequest(corpus))  # makes every state anew, as before
    assert (checksum(corpus), settings(corpus).study_steps) == (studied, 9)
    reindex(ReindexRequest(corpus, encoder="other"))  # only keys change: nothing is studied
    assert all(record.refined for record in records(corpus))
    reindex(ReindexRequest(corpus, encoder="other", wanted={"study_seconds": 2.0}))
    assert (settings(corpus).study_steps, settings(corpus).study_seconds) == (9, 2.0)
    reindex(ReindexRequest(corpus, encoder="other", wanted={"encode_mode": "twice"}))
    assert (settings(corpus).quality, settings(corpus).encode_mode) == ("study", "twice")
    with pytest.raises(UsageError, match="needs --quality study"):
        reindex(ReindexRequest(corpus, wanted={"quality": "fast", "study_steps": 3}))
    reindex(ReindexRequest(corpus, wanted={"quality": "fast"}))
    assert not any(record.refined for record in records(corpus))
    assert "quality" not in settings(corpus).to_json()
    index(docs, tmp_path / "d", model)
    assert plain == checksum(tmp_path / "d")
    assert [bytes(r.state) for r in records(corpus)] == [bytes(r.state) for r in records(tmp_path / "d")]


def test_gradient_steps_have_to_be_asked_for(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    corpus = tmp_path / "c"
    index(docs, corpus, model, quality="study")
    index(docs, corpus, model, study_steps=0)  # contradicts nothing
    made = settings(corpus)
    assert (made.quality, made.study_steps, made.study_seconds) == ("study", 0, 0.0)
    assert (studying.texts, made.is_trained) == ([], False)
    with pytest.raises(UsageError, match="another --study-steps"):
        index(docs, corpus, model, study_steps=3)
    reindex(ReindexRequest(corpus, wanted={"study_steps": 3}))
    made = settings(corpus)
    assert (made.study_steps, made.study_seconds, made.is_trained) == (3, CPU_SECONDS, True)
    assert all(record.refined for record in records(corpus))
    reindex(ReindexRequest(corpus, wanted={"study_steps": 0}))
    made = settings(corpus)
    assert (made.quality, made.study_steps, made.study_seconds) == ("study", 0, 0.0)
    assert not any(record.refined for record in records(corpus))


def test_copied_states_stay_refined(tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy) -> None:
    index(docs, tmp_path / "c", model, **STUDY)
    before, num_studied = records(tmp_path / "c"), len(studying.texts)
    reindex(ReindexRequest(tmp_path / "c", encoder="other"))
    after = records(tmp_path / "c")
    assert [(r.refined, bytes(r.state)) for r in after] == [(True, bytes(r.state)) for r in before]
    assert len(studying.texts) == num_studied


def test_forgetting_and_moving_records_leaves_the_others_refined(
    tmp_path: Path, docs: Path, model: ModelChoice, backbone: TennsBackbone, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "c", model, **STUDY)
    num_before = len(records(tmp_path / "c"))
    assert forget_document(tmp_path / "c", str(docs / "mill.md"), backbone.tokenizer).hits == 0
    with CorpusStore.open(tmp_path / "c", write=True) as store:
        store.compact()
        assert len(store.refined()) == num_before - 2
    assert [record.refined for record in records(tmp_path / "c")] == [True] * (num_before - 2)


def test_twice_is_the_encode_mode_and_old_settings_count_as_what_they_say(
    tmp_path: Path, docs: Path, model: ModelChoice
) -> None:
    index(docs, tmp_path / "c", model, quality="twice")
    assert (settings(tmp_path / "c").encode_mode, settings(tmp_path / "c").quality) == ("twice", "twice")
    index(docs, tmp_path / "d", model, encode_mode="twice")
    assert checksum(tmp_path / "c") == checksum(tmp_path / "d")
    index(docs, tmp_path / "d", model, quality="twice")
    with CorpusStore.open(tmp_path / "d") as store:
        assert "quality" not in store.settings
        for mode, quality in (("once", "fast"), ("twice", "twice"), ("twice-reversed", "twice")):
            assert CorpusSettings.from_json({**store.settings, "encode_mode": mode}).quality == quality
        with pytest.raises(DamagedCorpusError):
            CorpusSettings.from_json({**store.settings, "quality": "magic"})
    with pytest.raises(UsageError, match="another --quality") as error:
        index(docs, tmp_path / "d", model, **STUDY)
    assert error.value.hint is not None
    assert error.value.hint.endswith(f"precog reindex --corpus {tmp_path / 'd'} --quality study --study-steps {STEPS}")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"quality": "magic"}, "no such quality"),
        ({"quality": "fast", "encode_mode": "twice"}, "contradict"),
        ({"quality": "twice", "encode_mode": "once"}, "contradict"),
        ({"quality": "study", "study_steps": -1}, "--study-steps is out of range"),
        ({"quality": "study", "study_seconds": 0.0}, "--study-seconds is out of range"),
        ({"quality": "study", "study_seconds": -1.0}, "--study-seconds is out of range"),
        ({"quality": "study", "study_seconds": math.nan}, "--study-seconds is out of range"),
        ({"quality": "study", "study_seconds": math.inf}, "--study-seconds is out of range"),
        ({"quality": "fast", "study_steps": 5}, "--study-steps needs --quality study"),
        ({"quality": "study", "study_seconds": 5.0}, "--study-seconds needs --study-steps"),
        ({"study_seconds": 5.0}, "--study-seconds needs --quality study"),
    ],
)
def test_contradictions_are_refused_before_anything_is_made(
    tmp_path: Path, docs: Path, model: ModelChoice, wanted: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        index(docs, tmp_path / "c", model, **wanted)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "c").exists()
    index(docs, tmp_path / "d", model)
    before = checksum(tmp_path / "d")
    for again in (
        lambda: index(docs, tmp_path / "d", model, **wanted),
        lambda: reindex(ReindexRequest(tmp_path / "d", wanted=wanted)),
    ):
        with pytest.raises(UsageError, match=message):
            again()
    assert checksum(tmp_path / "d") == before


def test_a_model_without_gradients_is_refused_before_anything_is_made(
    tmp_path: Path, docs: Path, model: ModelChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_backbone: object) -> None:
        raise UsageError("this model cannot be studied with: no gradients", hint="--quality twice")

    monkeypatch.setattr(study_module, "check_can_study", refuse)
    with pytest.raises(UsageError):
        index(docs, tmp_path / "c", model, **STUDY)
    assert not (tmp_path / "c").exists()
    index(docs, tmp_path / "c", model)
    before = checksum(tmp_path / "c")
    with pytest.raises(UsageError):
        reindex(ReindexRequest(tmp_path / "c", wanted=STUDY))
    assert checksum(tmp_path / "c") == before


def test_an_answer_from_a_refined_state_is_not_called_exact(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    write(docs, "other.txt", f"The lighthouse of Marrow was {SPOILT} by Ada Quill.")
    index(docs, tmp_path / "c", model, **STUDY)
    with Asker(tmp_path / "c", model=model) as asker:
        mill = "Who made the wheel of the mill?"
        found = json.loads(json.dumps(asker.ask(mill).to_json()))
        assert (found["composition"]["exact"], found["composition"]["refined"]) == (False, True)
        assert [source["refined"] for source in found["sources"]] == [True, False, False]  # of those that were used
        read = asker.ask(mill, AskOptions(mode="in-context")).to_json()["composition"]
        kept = asker.ask("Who spoilt the lighthouse of Marrow?").to_json()["composition"]
        for composition in (read, kept):
            assert isinstance(composition, dict)
            assert (composition["exact"], composition["refined"]) == (True, False)
        plan = asker.ask(mill, AskOptions(mode="auto")).plan
        assert plan is not None
        assert (plan.way, "refined" in plan.reason) == ("inject", True)


def test_verify_compares_what_was_read_and_checks_what_was_refined(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "all", model, **STUDY)
    found = verify_corpus(tmp_path / "all", model=model, num_chunks=1)
    assert found.ok, found.violations
    assert found.records_refined == found.records_checked == len(records(tmp_path / "all"))
    assert "stored" not in found.conformance.coded  # nothing that is stored can be compared
    write(docs, "other.txt", f"The lighthouse of Marrow was {SPOILT} by Ada Quill.")
    index(docs, tmp_path / "all", model)
    found = verify_corpus(tmp_path / "all", model=model, num_chunks=1)
    assert found.ok, found.violations
    assert found.to_json()["records_refined"] == found.records_checked - 1
    assert found.conformance.coded["stored"].positions > 0


def test_verify_tells_of_a_refined_state_where_there_should_be_none_or_that_is_no_number(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(docs, tmp_path / "c", model, **STUDY)
    with CorpusStore.open(tmp_path / "c") as store:
        layout = store.layout
    segment = next((tmp_path / "c").rglob("*.seg"))
    data = bytearray(segment.read_bytes())
    record = data[layout.offset(1) : layout.offset(2)]
    record[layout.state_offset : layout.state_offset + 4] = np.float32(np.nan).tobytes()
    data[layout.offset(1) : layout.offset(2)] = relocate(bytes(record), Location(0, 1))  # with a checksum that fits
    segment.write_bytes(data)
    [violation] = verify_corpus(tmp_path / "c", model=model, num_chunks=1).violations
    assert violation.startswith("segment 000000, record 1 is refined, and not finite")
    plain = replace(settings(tmp_path / "c"), quality="fast")
    monkeypatch.setattr(verify_module, "settings_of", lambda _store: plain)
    found = verify_corpus(tmp_path / "c", model=model, num_chunks=1)
    told = [line for line in found.violations if "nothing of this corpus is studied" in line]
    assert len(told) == found.records_checked


def test_a_refined_state_that_gave_way_comes_back_as_reading_leaves_it_and_says_so(
    tmp_path: Path, docs: Path, model: ModelChoice, studying: PretendedStudy
) -> None:
    index(docs, tmp_path / "fast", model)
    index(docs, tmp_path / "c", model, **STUDY)
    index_documents(IndexRequest((), tmp_path / "c", model=model, budget_bytes=0))
    mill, num_studied = "Who made the wheel of the mill?", len(studying.texts)
    with Asker(tmp_path / "c", model=model) as asker, Asker(tmp_path / "fast", model=model) as plain:
        lost, read = asker.ask(mill), plain.ask(mill)
    assert not lost.sources[0].chunk.is_stored
    assert (lost.mixture.exact, lost.mixture.is_refined) == (True, False)
    assert (lost.text, lost.confidence) == (read.text, pytest.approx(read.confidence, abs=1e-5))
    assert len(studying.texts) == num_studied
    found = verify_corpus(tmp_path / "c", model=model, num_chunks=1)
    assert (found.ok, found.records_refined, found.records_checked) == (True, 0, 0)
    reindex(ReindexRequest(tmp_path / "c", encoder="other"))  # nothing is read: what is lost stays lost
    with CorpusStore.open(tmp_path / "c") as store:
        assert (store.size().num_states, store.refined()) == (0, set())
