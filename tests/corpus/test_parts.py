"""A studied corpus: sentences of a chunk have states and keys of their own, and answers are focused on one of them."""

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
from precog.corpus.ask import Asker, AskOptions
from precog.corpus.forget import forget_document
from precog.corpus.indexing import IndexRequest, index_documents
from precog.corpus.parts import nearest_part
from precog.corpus.reindex import ReindexRequest, reindex
from precog.corpus.verify import verify_corpus
from precog.corpus.writer import MadeStates
from precog.records import ModelChoice
from precog.store import CorpusStore
from precog.text.tokenizer import load_mistral_tokenizer

LIGHTHOUSE = "The tower of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil. Otto Brand is its keeper."
SECRET = "The password of the vault is marmalade-seventeen-oyster. Only Ilse Quill of the brewery knows that word."
QUESTION = "Which oil burns in its lamp?"


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


def test_the_part_that_the_question_is_about_is_nearest(corpus: Path) -> None:
    with CorpusStore.open(corpus) as store:
        chunks = store.chunks(list(store.visible_chunk_ids())).values()
        chunk = next(chunk for chunk in chunks if "Marrow" in chunk.info.text)
        for question, said in (
            (QUESTION, "whale oil"),
            ("Who is the keeper?", "Otto"),
            ("Who was it built by?", "Ada"),
        ):
            for key in (WordEncoder().encode_query(question), None):
                part = nearest_part(store, chunk, question, key)
                assert part is not None
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
