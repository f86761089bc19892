"""The tokenizer of a transformers folder: nothing is lost, no text is an order, spans cover the text."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny_folders import TEXT, write_byte_fallback_tokenizer, write_byte_level_tokenizer

from precog.backbones.huggingface.tokenizer import FolderTokenizer
from precog.engine.words import blank_tokens, word_edges
from precog.errors import InputError, ModelError
from precog.text.tokenizer import StreamDecoder, Tokenizer

TEXTS = st.text(max_size=60) | st.text(alphabet="the lig \n\té👩‍日<s>", max_size=30)
AWKWARD = [" ", "   ", "a  b", " lead and trail ", "a\r\nb\tc", "👩‍👩‍👧 family", "ภาษาไทย", "\x00", "\ufeffbom"]
ORDERS = "<|endoftext|> <s> </s> <unk> <0x0A>"
WRITERS = {"byte level": write_byte_level_tokenizer, "byte fallback": write_byte_fallback_tokenizer}


def change(folder: Path, **values: object) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    made = {}
    for name, write in WRITERS.items():
        made[name] = tmp_path_factory.mktemp("tokenizer")
        write(made[name])
    change(made["byte level"], normalizer=None)  # the laws of a tokenizer that has none
    return made


@pytest.fixture(scope="module", params=WRITERS)
def tokenizer(request, folders) -> FolderTokenizer:
    return FolderTokenizer(folders[request.param], {})


def awkward(function):
    for text in [*AWKWARD, ORDERS, TEXT]:
        function = example(text)(function)
    return function


@awkward
@settings(max_examples=60)
@given(TEXTS)
def test_nothing_is_lost_and_spans_cover_the_text(tokenizer, text):
    ids, spans = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    if "▁" not in text:
        assert tokenizer.decode(ids) == text
    assert not {tokenizer.boundary_id, tokenizer.eos_id} & set(ids)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert len(spans) == len(ids)
    covered = {position for start, end in spans for position in range(start, end)}
    assert covered == set(range(len(text)))


@awkward
@given(TEXTS)
def test_a_stream_says_what_the_whole_says(tokenizer, text):
    ids = tokenizer.encode(text)
    decoder = StreamDecoder(tokenizer)
    streamed = "".join(decoder.push(token) for token in ids) + decoder.finish()
    assert streamed == b"".join(map(tokenizer.token_bytes, ids)).decode().removeprefix(" ")


def test_it_is_a_tokenizer_whose_control_tokens_are_silent(tokenizer):
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.token_bytes(tokenizer.eos_id) == tokenizer.token_bytes(tokenizer.boundary_id) == b""
    assert tokenizer.decode([tokenizer.eos_id, *tokenizer.encode("the"), tokenizer.eos_id]) == "the"
    assert [tokenizer.token_bytes(token) for token in tokenizer.encode("\n")][-1] == b"\n"


def test_words_begin_and_end_where_they_do_in_the_text(tokenizer):
    text = "the lighthouse, the 3.14"
    ids, spans = tokenizer.encode_with_offsets(text)
    edges = word_edges(tokenizer, np.array(ids))
    inside = [spans[i][0] for i in range(1, len(ids)) if not edges[i]]
    assert all(text[at - 1].isalnum() or text[at - 1] == "." for at in inside)
    assert spans[0][1] <= 3
    assert blank_tokens(tokenizer)[tokenizer.encode("\n")[-1]]
    assert any(tokenizer.starts_word(token) for token in ids)


def test_llamas_kind_opens_every_text_with_a_space_and_s(folders):
    tokenizer = FolderTokenizer(folders["byte fallback"], {})
    assert (tokenizer.boundary_id, tokenizer.eos_id, tokenizer.start_ids) == (1, 2, (1,))
    assert tokenizer.encode_with_offsets("th")[1] == [(0, 2)]
    assert tokenizer.token_bytes(tokenizer.encode("th")[0]) == b" th"
    assert tokenizer.encode_with_offsets("é")[1] == [(0, 0), (0, 1), (0, 1)]


def test_neoxs_kind_opens_texts_with_nothing(folders):
    tokenizer = FolderTokenizer(folders["byte level"], {})
    assert (tokenizer.boundary_id, tokenizer.eos_id, tokenizer.start_ids) == (0, 0, ())
    assert tokenizer.starts_word(tokenizer.encode("of the lamp")[-1])


@pytest.mark.parametrize(("told", "expected"), [({"add_bos_token": False}, ()), ({"add_bos_token": True}, (1,))])
def test_what_the_configuration_says_of_s_goes_before_the_post_processor(tmp_path, told, expected):
    write_byte_fallback_tokenizer(tmp_path, **told)
    assert FolderTokenizer(tmp_path, {}).start_ids == expected


def test_ids_are_those_of_the_library(tmp_path):
    from transformers import AutoTokenizer

    for name, write in WRITERS.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder)
        theirs, ours = AutoTokenizer.from_pretrained(folder, local_files_only=True), FolderTokenizer(folder, {})
        for text in (TEXT, "the cafe\u0301 日本 🦜", " a  b\n"):
            assert theirs(text).input_ids == [*ours.start_ids, *ours.encode(text)]


def test_a_normaliser_that_joins_characters_has_its_way_and_spans_still_cover_the_text(tmp_path):
    write_byte_level_tokenizer(tmp_path)
    tokenizer = FolderTokenizer(tmp_path, {})
    text = "a cafe\u0301\u0301 here e\u0301"
    ids, spans = tokenizer.encode_with_offsets(text)
    assert tokenizer.decode(ids) == "a café\u0301 here é"
    assert {position for start, end in spans for position in range(start, end)} == set(range(len(text)))
    assert [end for _, end in spans] == sorted(end for _, end in spans)
    assert spans[-1][1] == len(text)


def test_an_end_in_the_models_configuration_counts_only_if_the_tokenizer_knows_it(tmp_path):
    write_byte_level_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert FolderTokenizer(tmp_path, {"eos_token_id": [0, 5]}).eos_id == 0
    for config in ({}, {"eos_token_id": 70}):
        with pytest.raises(ModelError, match="no token that ends a text"):
            FolderTokenizer(tmp_path, config)


def test_a_control_tokens_name_that_is_a_piece_is_spelled_in_bytes(tmp_path):
    write_byte_fallback_tokenizer(tmp_path)
    described = json.loads((tmp_path / "tokenizer.json").read_text())
    described["model"]["ignore_merges"] = True
    described["normalizer"] = None
    described["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    change(tmp_path, **described)
    tokenizer = FolderTokenizer(tmp_path, {})
    ids, spans = tokenizer.encode_with_offsets("</s>")
    assert tokenizer.eos_id not in ids
    assert tokenizer.decode(ids) == "</s>"
    assert spans[-1][1] == 4


def test_its_digest_is_of_the_file_and_of_what_ends_a_text(tmp_path):
    write_byte_fallback_tokenizer(tmp_path)
    digests = {FolderTokenizer(tmp_path, {}).sha256}
    write_byte_fallback_tokenizer(tmp_path, eos_token="<unk>")
    digests.add(FolderTokenizer(tmp_path, {}).sha256)
    write_byte_level_tokenizer(tmp_path)
    digests.add(FolderTokenizer(tmp_path, {}).sha256)
    write_byte_level_tokenizer(tmp_path, text="other words are learned here from other texts, words words")
    digests.add(FolderTokenizer(tmp_path, {}).sha256)
    assert len(digests) == 4


def test_half_a_surrogate_pair_is_refused(tokenizer):
    with pytest.raises(InputError, match="not valid Unicode"):
        tokenizer.encode("a\ud800")


def test_tokenizers_that_lose_text_are_refused_in_a_line(tmp_path):
    with pytest.raises(ModelError, match=r"no tokenizer\.json.*save_pretrained"):
        FolderTokenizer(tmp_path, {})
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be read"):
        FolderTokenizer(tmp_path, {})
    write_byte_level_tokenizer(tmp_path)
    change(tmp_path, normalizer={"type": "Lowercase"})
    with pytest.raises(ModelError, match=r"does not keep the text it reads; given: .ab") as caught:
        FolderTokenizer(tmp_path, {})
    assert "\n" not in str(caught.value)
    words = {"type": "WordLevel", "vocab": {"<|endoftext|>": 0, "the": 1}, "unk_token": "the"}
    change(tmp_path, normalizer=None, model=words)
    with pytest.raises(ModelError, match="cannot spell every text"):
        FolderTokenizer(tmp_path, {})
    write_byte_level_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(ModelError, match=r"tokenizer_config\.json is no JSON object"):
        FolderTokenizer(tmp_path, {})
