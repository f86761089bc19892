"""A studied corpus: sentences of a chunk have states and keys of their own, and answers are focused on one of them."""

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_corpus import WordEncoder, checksum, numbered, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.corpus import corpus as corpus_module
from precog.corpus import indexing as indexing_module
from precog.corpus import reindex as reindex_module
from precog.corpus import unit
from precog.corpus.answer import CorpusAnswer
from precog.corpus.ask import Asker, AskOptions
from precog.corpus.forget import forget_document
from precog.corpus.indexing import IndexRequest, index_documents
from precog.corpus.parts import nearest_parts
from precog.corpus.reindex import ReindexRequest, reindex
from precog.corpus.unfinished import unfinished
from precog.corpus.verify import verify_corpus
from precog.corpus.writer import MadeStates, UnitWriter
from precog.engine import Source, answer_inject, question_segment
from precog.errors import DamagedCorpusError
from precog.evaluate.parts import Parts
from precog.evaluate.reader import ParagraphReader
from precog.records import ModelChoice
from precog.refine import focus as focus_module
from precog.refine.focus import focused
from precog.state import codec_named
from precog.store import CorpusStore
from precog.text.tokenizer import load_mistral_tokenizer

LIGHTHOUSE = "The tower of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil. Otto Brand is its keeper."
SECRET = "The password of the vault is marmalade-seventeen-oyster. Only Ilse Quill of the brewery knows that word."
Know = Callable[[Asker], None]
QUESTION = "Which oil burns in its lamp?"
TIED = ("Its foghorn blows at noon.", "Its anchor rusts at dusk.")
LAST = "Nobody has lived on that island for some eighty years."
ISLAND = " ".join((*TIED, LAST))
ABOUT_BOTH = "Does anchor or foghorn rust and blow?"


class OtherEncoder(WordEncoder):
    fingerprint = "0" * 64


@pytest.fixture(autouse=True)
def _word_keys_and_small_units(monkeypatch: pytest.MonkeyPatch, encoder: WordEncoder) -> None:
    monkeypatch.setattr(unit, "UNIT_CHUNKS", 4)
    for module in (corpus_module, indexing_module, reindex_module):
        monkeypatch.setattr(module, "load_encoder", lambda spec: OtherEncoder() if spec == "other" else encoder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, backbone: TennsBackbone) -> ModelChoice:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(folder, backbone.model, name="tiny", tokenizer_sha256=backbone.tokenizer.sha256)
    return ModelChoice(str(folder), "cpu")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs", "lighthouse.txt", LIGHTHOUSE)
    write(tmp_path / "docs", "secret.txt", SECRET)
    return write(tmp_path / "docs", "ships.txt", numbered(0, 20)).parent


def index(docs: Path, corpus: Path, model: ModelChoice, **wanted: object) -> None:
    new = {} if corpus.exists() else {"chunk_tokens": 64, "codec": "fp32", "quality": "study"}
    index_documents(IndexRequest((str(docs),), corpus, model=model, wanted={**new, **wanted}))


@pytest.fixture
def corpus(tmp_path: Path, docs: Path, model: ModelChoice) -> Path:
    index(docs, tmp_path / "c", model)
    return tmp_path / "c"


def test_every_sentence_is_read_alone(corpus: Path, backbone: TennsBackbone) -> None:
    with CorpusStore.open(corpus) as store:
        chunks = list(store.chunks(list(store.visible_chunk_ids())).values())
        chunk = next(chunk for chunk in chunks if "Marrow" in chunk.info.text)
        parts = store.parts(chunk.id)
        texts = [chunk.info.text[slice(*part.span)] for part in parts]
        assert texts == LIGHTHOUSE.replace(". ", ".|").split("|")
        states = backbone.encode_chunks([backbone.tokenizer.encode(text) for text in texts])
        for part, text, state in zip(parts, texts, states, strict=True):
            record = store.read_part(part)
            assert record.token_ids.tolist() == backbone.tokenizer.encode(text)
            assert not record.refined
            read = np.frombuffer(record.state.tobytes(), "<f4")
            np.testing.assert_allclose(read, state.recurrent.flatten().numpy(), atol=1e-5)
            np.testing.assert_array_equal(part.keys, WordEncoder().encode_passages([text])[0])
        assert store.size().num_parts == sum(len(store.parts(entry.id)) for entry in chunks) > 10


def test_the_part_that_the_question_is_about_is_nearest(corpus: Path, backbone: TennsBackbone) -> None:
    with CorpusStore.open(corpus) as store:
        chunks = store.chunks(list(store.visible_chunk_ids())).values()
        chunk = next(chunk for chunk in chunks if "Marrow" in chunk.info.text)
        for question, said in (
            (QUESTION, "whale oil"),
            ("Who is the keeper?", "Otto"),
            ("Who was it built by?", "Ada"),
        ):
            for key in (WordEncoder().encode_query(question), None):
                asked = question_segment(backbone, question)
                [(part, near), *others] = nearest_parts(store, chunk, question, asked, key, "mix", backbone)
                assert all(other < near for _, other in others)
                assert said in chunk.info.text[slice(*part.span)]


def test_an_answer_starts_from_the_mean_of_chunk_and_part(
    corpus: Path, model: ModelChoice, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[torch.Tensor] = []
    with Asker(corpus, model=model) as asker:
        inject = asker.backbone.open

        def remember(states):
            opened.extend(state.recurrent for state in states)
            return inject(states)

        monkeypatch.setattr(asker.backbone, "open", remember)
        answer = asker.ask(QUESTION, AskOptions(always_answer=True))
    chunk = answer.sources[0].chunk
    whole, part = backbone.encode_chunks(
        [backbone.tokenizer.encode(text) for text in (chunk.info.text, "Its lamp burns whale oil.")]
    )
    torch.testing.assert_close(opened[0], (whole.recurrent + part.recurrent) / 2, atol=1e-5, rtol=0)
    said = answer.to_json()
    start, stop = said["sources"][0]["focus"]
    assert Path(chunk.source).read_text()[start:stop] == "Its lamp burns whale oil."
    assert said["sources"][1]["focus"] is None
    assert said["composition"]["exact"] is False
    assert said["composition"]["refined"] is False


@pytest.mark.parametrize("mode", ["in-context", "resume"])
def test_what_is_read_is_read_whole(corpus: Path, model: ModelChoice, mode: str) -> None:
    with Asker(corpus, model=model) as asker:
        answer = asker.ask(QUESTION, AskOptions(mode=mode, always_answer=True))
        assert answer.mixture.focus_of(0) is None
        planned = asker.ask(QUESTION, AskOptions(mode="auto", always_answer=True))
        assert planned.plan is not None
        assert (planned.plan.way, planned.mixture.focus_of(0) is None) == ("inject", False)


def test_indexing_again_changes_nothing_and_a_fast_corpus_has_no_parts(
    tmp_path: Path, docs: Path, corpus: Path, model: ModelChoice
) -> None:
    before = checksum(corpus)
    index(docs, corpus, model)
    assert checksum(corpus) == before
    index(docs, tmp_path / "fast", model, quality="fast")
    with CorpusStore.open(tmp_path / "fast") as store:
        assert store.size().num_parts == 0


def test_an_interrupted_run_goes_on_where_it_stopped(
    tmp_path: Path, docs: Path, corpus: Path, model: ModelChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, calls = MadeStates.make, []

    def interrupted(self, readings):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return make(self, readings)

    monkeypatch.setattr(MadeStates, "make", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index(docs, tmp_path / "again", model)
    with CorpusStore.open(tmp_path / "again") as store:
        assert store.size().num_parts > 0
        assert list(store.complaints()) == []
    index(docs, tmp_path / "again", model)
    assert checksum(tmp_path / "again") == checksum(corpus)


def test_new_keys_copy_the_states_of_parts_and_qualities_change_into_each_other(
    tmp_path: Path, docs: Path, corpus: Path, model: ModelChoice
) -> None:
    before = checksum(corpus)
    reindex(ReindexRequest(corpus, encoder="other"))  # no model is loaded
    assert checksum(corpus) == before  # of these two encoders only the names differ
    index(docs, tmp_path / "fast", model, quality="fast")
    plain = checksum(tmp_path / "fast")
    reindex(ReindexRequest(tmp_path / "fast", model, wanted={"quality": "study"}))
    assert checksum(tmp_path / "fast") == before
    reindex(ReindexRequest(tmp_path / "fast", model, wanted={"quality": "fast"}))
    assert checksum(tmp_path / "fast") == plain


def test_nothing_of_a_forgotten_part_is_left(docs: Path, corpus: Path) -> None:
    def everything() -> bytes:
        return b"".join(path.read_bytes() for path in corpus.rglob("*") if path.is_file())

    with CorpusStore.open(corpus) as store:
        [row] = store.find_documents(str(docs / "secret.txt"))
        parts = [part for chunk in store.chunks_of(row.id) for part in store.parts(chunk.id)]
        assert len(parts) == 2
        own = [part.keys.tobytes() for part in parts] + [store.read_part(part).state.tobytes() for part in parts]
    assert all(piece in everything() for piece in own)
    report = forget_document(corpus, "secret.txt", load_mistral_tokenizer())
    assert report.hits == 0
    assert not any(piece in everything() for piece in [*own, b"marmalade-seventeen"])
    assert report.searched_for > 4 * sum(len(piece) // 64 for piece in own) // 5


def test_a_state_that_gave_way_is_read_again(corpus: Path, model: ModelChoice) -> None:
    with Asker(corpus, model=model) as asker:
        before = asker.ask(QUESTION, AskOptions(always_answer=True))
    with CorpusStore.open(corpus, write=True) as store, store.batch() as batch:
        batch.keep_budget(0)
    with Asker(corpus, model=model) as asker:
        after = asker.ask(QUESTION, AskOptions(always_answer=True))
    assert after.text == before.text
    assert after.mixture.focus_of(0) == before.mixture.focus_of(0) is not None
    assert after.tokens_processed > before.tokens_processed


def test_verify_knows_parts(corpus: Path, model: ModelChoice) -> None:
    report = verify_corpus(corpus, model=model)
    assert report.ok
    with CorpusStore.open(corpus) as store:
        assert report.records_checked == store.size().num_states > store.size().num_chunks


@pytest.fixture
def island(tmp_path: Path, docs: Path, model: ModelChoice) -> Path:
    write(docs, "island.txt", ISLAND)
    index(docs, tmp_path / "i", model)
    return tmp_path / "i"


@pytest.fixture
def let_it_know(monkeypatch: pytest.MonkeyPatch) -> Callable[[Asker], None]:
    """Gives a model a card that says how sure its answers are, so that its states are asked."""
    confidence = {"bias": 0.0, "weights": {}, "threshold": 0.0, "fitted": {}}

    def know(asker: Asker) -> None:
        monkeypatch.setattr(asker.backbone, "card", replace(asker.backbone.card, confidence=confidence))

    return know


def test_where_two_sentences_are_about_as_near_their_states_are_asked(
    island: Path,
    model: ModelChoice,
    let_it_know: Know,
    encoder: WordEncoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for sure in range(2):
        rows = []

        def claims(backbone, states, question_ids, sure=sure, rows=rows):
            rows.extend(states)
            return [4.0 * (number % 2 == sure) for number in range(len(states))]

        monkeypatch.setattr(focus_module, "claims", claims)
        with Asker(island, model=model) as asker:
            let_it_know(asker)
            answer = asker.ask(ABOUT_BOTH, AskOptions(always_answer=True))
            backbone, settings = asker.backbone, asker._grounded
        said = answer.to_json()
        start, stop = said["sources"][0]["focus"]
        assert Path(answer.sources[0].chunk.source).read_text()[start:stop] == TIED[sure]
        assert said["sources"][1]["focus"] is None
        assert said["composition"]["members"] == [{"source": 0, "weight": 1.0}]
        assert (said["composition"]["rule"], said["composition"]["exact"]) == ("mix", False)
        ids = [backbone.tokenizer.encode(part) for part in (ISLAND, *TIED)]
        whole, *parts = backbone.encode_chunks(ids)
        means = [focused(whole, part, backbone.spec) for part in parts]
        for row, expected in zip(rows, [*means, *parts], strict=True):
            torch.testing.assert_close(row.recurrent, expected.recurrent, atol=1e-5, rtol=0)
        asked = question_segment(backbone, ABOUT_BOTH)
        plain = answer_inject(backbone, means[sure], asked, sources=[Source.of(ids[0])], settings=settings)
        assert answer.confidence == pytest.approx(asker.confidence.of(plain), abs=1e-5)
        assert answer.text == backbone.tokenizer.decode(plain.token_ids).strip()
        assert answer.tokens_processed == plain.tokens_processed + 4 * len(asked)


def test_nobody_is_asked_where_one_sentence_stands_out(
    island: Path, model: ModelChoice, let_it_know: Know, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claims(*_: object) -> list[float]:
        raise AssertionError

    monkeypatch.setattr(focus_module, "claims", claims)
    with Asker(island, model=model) as asker:
        let_it_know(asker)
        answer = asker.ask("When does its foghorn blow at noon?", AskOptions(always_answer=True))
        assert answer.mixture.focus_of(0) is not None
        for options in (AskOptions(compose="replay", always_answer=True), AskOptions(mode="in-context")):
            assert asker.ask(ABOUT_BOTH, options).mixture.focus_of(0) is None


def test_a_model_that_was_not_seen_to_know_is_not_asked(island: Path, model: ModelChoice) -> None:
    with Asker(island, model=model) as asker:
        answer = asker.ask(ABOUT_BOTH, AskOptions(always_answer=True))
        start, stop = answer.to_json()["sources"][0]["focus"]
        assert Path(answer.sources[0].chunk.source).read_text()[start:stop] == TIED[0]
        assert answer.tokens_processed < 2 * len(question_segment(asker.backbone, ABOUT_BOTH))


@pytest.mark.parametrize("rule", ["mix", "mean"])
def test_several_sources_have_their_own_sentences(
    island: Path, model: ModelChoice, let_it_know: Know, rule: str
) -> None:
    with Asker(island, model=model) as asker:
        let_it_know(asker)
        question = f"{ABOUT_BOTH} {QUESTION}"
        answer = asker.ask(question, AskOptions(inject=2, free=True, max_tokens=4, compose=rule))
    for number in range(2):
        focus = answer.mixture.focus_of(number)
        assert focus is not None
        start, stop = answer.sources[number].chunk.info.span
        assert start <= focus[0] < focus[1] <= stop
    assert sum(answer.mixture.weights) == pytest.approx(1.0)
    assert len(answer.mixture.weights) == 2


def test_all_sentences_are_read_again_where_their_states_gave_way(
    island: Path, model: ModelChoice, let_it_know: Know
) -> None:
    with Asker(island, model=model) as asker:
        let_it_know(asker)
        before = asker.ask(ABOUT_BOTH, AskOptions(always_answer=True))
    with CorpusStore.open(island, write=True) as store, store.batch() as batch:
        batch.keep_budget(0)
    with Asker(island, model=model) as asker:
        let_it_know(asker)
        after = asker.ask(ABOUT_BOTH, AskOptions(always_answer=True))
    tokens = [load_mistral_tokenizer().encode(text) for text in (ISLAND, *TIED)]
    assert after.tokens_processed - before.tokens_processed == sum(map(len, tokens))
    assert (after.text, after.mixture.focus_of(0)) == (before.text, before.mixture.focus_of(0))
    assert after.confidence == pytest.approx(before.confidence, abs=1e-5)


def test_states_that_are_not_asked_are_not_looked_at(island: Path, model: ModelChoice, let_it_know: Know) -> None:
    def said() -> list[CorpusAnswer]:
        with Asker(island, model=model) as asker:
            unsure = asker.ask(ABOUT_BOTH, AskOptions(always_answer=True))
            let_it_know(asker)
            return [unsure, asker.ask(f"{ABOUT_BOTH} {'again ' * 300}", AskOptions(always_answer=True))]

    before = said()
    with CorpusStore.open(island, write=True) as store, store.batch() as batch:
        batch.keep_budget(0)
    tokens = [load_mistral_tokenizer().encode(text) for text in (ISLAND, TIED[0])]
    for old, new in zip(before, said(), strict=True):
        assert new.tokens_processed - old.tokens_processed == sum(map(len, tokens))
        assert (new.text, new.mixture.focus_of(0)) == (old.text, old.mixture.focus_of(0))


def test_an_evaluation_answers_as_users_are_answered(
    island: Path, model: ModelChoice, let_it_know: Know, encoder: WordEncoder
) -> None:
    with Asker(island, model=model) as asker:
        codec = codec_named("fp32")
        reader = ParagraphReader(asker.backbone, "fp32", asker._grounded, parts=Parts(asker.backbone, encoder, codec))
        let_it_know(asker)
        for question, in_doubt in ((ABOUT_BOTH, True), ("When does its foghorn blow at noon?", False)):
            answer = asker.ask(question, AskOptions(always_answer=True))
            text = answer.sources[0].chunk.info.text
            said = reader.inject(question, [text], [1.0], 1.0)
            assert (said.text, said.tokens_processed) == (answer.text, answer.tokens_processed)
            assert said.confidence == pytest.approx(answer.confidence, abs=1e-5)
            assert reader.focused(question, text).in_doubt == in_doubt


def damaged(corpus: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(corpus / "000001/catalogue.sqlite")) as connection:
        connection.execute(statement)
        connection.commit()


LAST_PART = """DELETE FROM parts WHERE id = (SELECT max(p.id) FROM parts p JOIN chunks c ON c.id = p.chunk_id
    WHERE c.text LIKE '%Marrow%')"""


def test_a_chunk_that_lost_its_last_part_is_not_answered_from_and_made_anew(corpus: Path, model: ModelChoice) -> None:
    before = checksum(corpus)
    damaged(corpus, LAST_PART)
    with Asker(corpus, model=model) as asker, pytest.raises(DamagedCorpusError, match="parts are missing"):
        asker.ask(QUESTION, AskOptions(always_answer=True))
    report = verify_corpus(corpus, model=model, num_chunks=1)
    assert [line for line in report.violations if "parts are missing" in line]
    with pytest.raises(DamagedCorpusError, match="parts are missing"):  # nothing is read again for keys alone
        reindex(ReindexRequest(corpus, wanted={"keys": "text"}))
    reindex(ReindexRequest(corpus, model=model))
    assert checksum(corpus) == before


def test_a_damaged_part_does_not_hide_the_others_from_the_search(corpus: Path) -> None:
    only = "Only Ilse Quill of the brewery knows that word."
    with CorpusStore.open(corpus) as store:
        chunks = store.chunks(list(store.visible_chunk_ids())).values()
        chunk = next(chunk for chunk in chunks if only in chunk.info.text)
        first, second = store.parts(chunk.id)
        (corpus / "copy.bin").write_bytes(store.read_part(second).state.tobytes())
    damaged(corpus, f"UPDATE parts SET stop = 7 WHERE id = {first.id}")
    report = forget_document(corpus, "secret.txt", load_mistral_tokenizer())
    assert report.hits > 0
    assert [Path(name).name for name in report.hit_files] == ["copy.bin"]


def interrupting_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit of this number, from 1, is interrupted."""
    commit, done = UnitWriter.commit, 0

    def stop(self: UnitWriter, made: unit.Unit) -> None:
        nonlocal done
        done += 1
        if done == number:
            raise KeyboardInterrupt
        commit(self, made)

    monkeypatch.setattr(UnitWriter, "commit", stop)


def test_an_interrupted_study_keeps_small_units_and_says_what_is_kept(
    tmp_path: Path, docs: Path, model: ModelChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit, "UNIT_CHUNKS", 16)
    write(docs, "zz.txt", numbered(100, 140))
    with monkeypatch.context() as patched:
        interrupting_at(2, patched)
        with pytest.raises(KeyboardInterrupt) as stopped:
            index(docs, tmp_path / "c", model)
    with CorpusStore.open(tmp_path / "c") as store:
        size = store.size()
        assert size.num_chunks == unit.STUDY_CHUNKS
        [note] = stopped.value.__notes__
        assert note == f"{size.num_documents} whole documents and {size.num_chunks} chunks in all are kept"
    index(docs, tmp_path / "c", model)
    index(docs, tmp_path / "whole", model)
    assert checksum(tmp_path / "c") == checksum(tmp_path / "whole")


def test_an_interrupted_change_is_told_and_goes_on(
    docs: Path, tmp_path: Path, model: ModelChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "c"
    index(docs, corpus, model, quality="fast")
    with CorpusStore.open(corpus) as store:
        assert unfinished(store) is None
        num_chunks = store.size().num_chunks
    with monkeypatch.context() as patched:
        interrupting_at(2, patched)
        with pytest.raises(KeyboardInterrupt) as stopped:
            reindex(ReindexRequest(corpus, model, wanted={"quality": "study"}))
    [note] = stopped.value.__notes__
    assert note.startswith(f"{unit.STUDY_CHUNKS} of {num_chunks} chunks are done")
    with CorpusStore.open(corpus) as store:
        begun = unfinished(store)
    assert begun is not None
    assert begun.num_chunks == unit.STUDY_CHUNKS
    assert begun.command == f"precog reindex --corpus {corpus} --quality study"
    report = reindex(ReindexRequest(corpus, model, wanted={"quality": "study"}))
    assert report.chunks == num_chunks - unit.STUDY_CHUNKS
    with CorpusStore.open(corpus) as store:
        assert unfinished(store) is None
        assert store.size().num_chunks == num_chunks
