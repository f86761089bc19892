"""Perplexity: what is predicted from what, counted by hand."""

import json
import lzma
import math

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError, UsageError
from precog.evaluate.perplexity import Perplexity, measure_perplexity, read_token_documents
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()


@pytest.fixture(scope="module")
def backbone():
    return TennsBackbone.random("tiny-outer", TOKENIZER)


def test_every_token_is_predicted_from_its_document_by_stepping(backbone):
    documents = [[500, 600, 700, 800, 900], [501], [502, 602]]
    found = measure_perplexity(backbone, documents, segment_tokens=2)
    expected = []
    for document in documents:
        batch = backbone.open([backbone.empty_state()])
        for place, token in enumerate(document):
            if place % 2 == 0:
                batch, hidden = backbone.step(batch, [1])
            expected.append(-backbone.logits(hidden)[0].double().log_softmax(-1)[token].item())
            batch, hidden = backbone.step(batch, [token])
    assert found.nll.tolist() == pytest.approx(expected, abs=1e-4)
    assert found.num_tokens == 8
    assert found.value == pytest.approx(math.exp(sum(expected) / 8), rel=1e-5)


def test_segments_alone_and_carried_differ_after_the_first(backbone):
    document = list(range(500, 512))
    carried = measure_perplexity(backbone, [document], segment_tokens=4)
    alone = measure_perplexity(backbone, [document], segment_tokens=4, carried=False)
    apart = measure_perplexity(backbone, [document[:4], document[4:8], document[8:]], segment_tokens=4)
    assert alone.nll.equal(apart.nll)
    assert torch.allclose(carried.nll[:4], alone.nll[:4])
    assert not torch.allclose(carried.nll[4:], alone.nll[4:], atol=1e-3)


def test_a_change_is_relative_and_paired():
    before = Perplexity(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    after = Perplexity(before.nll + math.log(1.02))
    change, half = after.change_from(before)
    assert change == pytest.approx(0.02)
    assert half == pytest.approx(0, abs=1e-9)
    with pytest.raises(UsageError, match="different texts"):
        after.change_from(Perplexity(torch.zeros(2, dtype=torch.float64)))


def test_documents_come_from_text_and_json_lines_and_are_cut_at_the_limit(tmp_path):
    text = "# One\nThe lamp burns.\n\n# Two\nThe mill turns.\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text.encode()))
    rows = [{"title": "One", "text": "The lamp burns."}, {"title": "Two", "text": "The mill turns."}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = read_token_documents(tmp_path / "a.txt", TOKENIZER)
    assert first == [TOKENIZER.encode("One\nThe lamp burns."), TOKENIZER.encode("Two\nThe mill turns.")]
    assert read_token_documents(tmp_path / "a.txt.xz", TOKENIZER) == first
    assert read_token_documents(tmp_path / "a.jsonl", TOKENIZER) == first
    cut = read_token_documents(tmp_path / "a.txt", TOKENIZER, limit_tokens=len(first[0]) + 2)
    assert cut == [first[0], first[1][:2]]
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match="no text"):
        read_token_documents(tmp_path / "empty.txt", TOKENIZER)
    with pytest.raises(InputError, match="cannot be read"):
        read_token_documents(tmp_path / "none.txt", TOKENIZER)


def test_nothing_to_measure_is_said(backbone):
    with pytest.raises(InputError, match="no text"):
        measure_perplexity(backbone, [[]])
    with pytest.raises(UsageError, match="segment length"):
        measure_perplexity(backbone, [[500]], segment_tokens=0)
