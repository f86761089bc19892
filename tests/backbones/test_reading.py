"""What is read for a chunk: boundary, template, once, twice, or with its sentences reversed first."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.reading import reading_ids, split_sentences
from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError, ModelError
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
TEXT = 'He left. "Why?" she asked. Pi is 3.14 exactly! 你好。再见。'


def test_sentences_end_where_people_end_them():
    ids = TOKENIZER.encode(TEXT)
    parts = [TOKENIZER.decode(part).strip() for part in split_sentences(ids, TOKENIZER)]
    assert parts == ["He left.", '"Why?"', "she asked.", "Pi is 3.14 exactly!", "你好。", "再见。"]


@settings(deadline=None)
@given(text=st.text(min_size=1, max_size=60))
def test_reversing_sentences_loses_no_token(text):
    ids = TOKENIZER.encode(text)
    parts = split_sentences(ids, TOKENIZER)
    assert list(chain(*parts)) == ids
    twice = reading_ids(ids, TOKENIZER, encode_mode="twice-reversed")
    assert twice == [1, *chain(*reversed(parts)), 1, *ids]


def test_modes_and_templates():
    ids = TOKENIZER.encode("One. Two.")
    assert reading_ids(ids, TOKENIZER) == [1, *ids]
    assert reading_ids(ids, TOKENIZER, encode_mode="twice") == [1, *ids, 1, *ids]
    before, after = TOKENIZER.encode("Text:"), TOKENIZER.encode("(end)")
    assert reading_ids(ids, TOKENIZER, chunk_template="Text:{chunk}(end)") == [1, *before, *ids, *after]
    for bad in ([], [1], [5, 2]):
        with pytest.raises(InputError):
            reading_ids(bad, TOKENIZER)


def test_the_mode_is_part_of_the_fingerprint_and_of_the_reading():
    models = [TennsBackbone.random("tiny", TOKENIZER, encode_mode=mode) for mode in ("once", "twice", "twice-reversed")]
    assert len({model.fingerprint for model in models}) == 3
    ids = TOKENIZER.encode("One is here. Two is there.")
    for model in models:
        [state] = model.encode_chunks([ids])
        assert state.num_tokens == len(model.reading(ids))
        _, one_pass = model.prefill([*model.reading(ids), 1, 9])
        assert (model.prefill([1, 9], state)[1] - one_pass).abs().max() < 1e-4
    with pytest.raises(ModelError, match="encode mode"):
        TennsBackbone.random("tiny", TOKENIZER, encode_mode="thrice")
