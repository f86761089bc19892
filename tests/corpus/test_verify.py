import contextlib
import sqlite3
from pathlib import Path

import pytest
from tiny_corpus import WordEncoder, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.corpus.verify import MOST_QUESTION_TOKENS, verification_question, verify_corpus
from precog.errors import CorpusError, ForeignStateError
from precog.records import ModelChoice


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, backbone: TennsBackbone) -> ModelChoice:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(folder, backbone.model, name="tiny", tokenizer_sha256=backbone.tokenizer.sha256)
    return ModelChoice(str(folder), "cpu")


@pytest.mark.parametrize("codec", ["fp16", "fp32", "int8", "int4-rot"])
def test_a_sound_corpus_holds(
    tmp_path: Path, model: ModelChoice, backbone: TennsBackbone, encoder: WordEncoder, codec: str
) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 12))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder, codec=codec)
    report = verify_corpus(tmp_path / "c", model=model, num_chunks=1)
    found = report.to_json()
    assert report.ok, report.violations
    assert found["records_checked"] == report.records_checked > 2
    assert report.conformance.exact.positions >= MOST_QUESTION_TOKENS
    assert 0 < found["max_abs_logit_error"]["fp32"] <= found["bound"]["fp32"] == 1e-4  # type: ignore[index]
    assert 0 < found["max_abs_logit_error"]["fp16"] < 1e-1  # type: ignore[index]
    assert report.conformance.cuts > 20


def test_every_damaged_record_is_a_violation(
    tmp_path: Path, model: ModelChoice, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 12))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    segment = next((tmp_path / "c").rglob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1  # padding counts, too
    segment.write_bytes(data)
    report = verify_corpus(tmp_path / "c", model=model, num_chunks=1)
    assert not report.ok
    assert len(report.violations) == 1
    assert "damaged" in report.violations[0]


def test_changed_rows_of_the_catalogue_are_violations(
    tmp_path: Path, model: ModelChoice, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 12))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    with contextlib.closing(sqlite3.connect(tmp_path / "c/000001/catalogue.sqlite")) as connection:
        connection.execute("UPDATE chunks SET text = 'changed' WHERE id = 1")
        connection.execute("UPDATE keys SET vectors = zeroblob(length(vectors)) WHERE chunk_id = 2")
        connection.commit()
    report = verify_corpus(tmp_path / "c", model=model, num_chunks=1)
    assert not report.ok
    assert [line.partition(" is not")[0].partition(": ")[2].partition(" of ")[0] for line in report.violations] == [
        "chunk 0",
        "the keys",
    ]


def test_the_question_has_every_length(backbone: TennsBackbone) -> None:
    question = verification_question(backbone)
    assert len(question) == MOST_QUESTION_TOKENS
    assert question[0] == backbone.tokenizer.boundary_id


def test_another_model_or_an_empty_corpus_cannot_be_verified(
    tmp_path: Path, model: ModelChoice, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    write(tmp_path / "docs", "a.txt", "")
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    with pytest.raises(CorpusError, match="nothing"):
        verify_corpus(tmp_path / "c", model=model)
    other = TennsBackbone.random("tiny-outer", backbone.tokenizer, seed=2)
    save_model(tmp_path / "other", other.model, name="other", tokenizer_sha256=backbone.tokenizer.sha256)
    with pytest.raises(ForeignStateError):
        verify_corpus(tmp_path / "c", model=ModelChoice(str(tmp_path / "other")))
