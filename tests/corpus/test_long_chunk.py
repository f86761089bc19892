"""A fact in the last sentence of a long chunk is found, because no key is cut short."""

from pathlib import Path

import pytest
from tiny_corpus import make_store

from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus.ingest import Ingest
from precog.corpus.search import Searcher
from precog.encoders import load_encoder
from precog.text.sources import find_sources

FACT = "The password of the observatory is kept by Ilse Brandt in a blue tin box."
TOPICS = ["harbour cranes", "apple orchards", "bridge building", "sheep farming", "clock making", "salt mining"]


def filler(topic: str, sentences: int) -> str:
    return " ".join(
        f"In the year {1700 + n} the people of the valley wrote down what they knew of {topic} in book {n}."
        for n in range(sentences)
    )


@pytest.mark.parametrize("retrieval", ["dense", "hybrid"])
def test_a_fact_in_the_last_sentence_of_a_chunk_of_512_tokens_is_retrieved(
    tmp_path: Path, backbone: TennsBackbone, retrieval: str
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for topic in TOPICS:
        (docs / f"{topic}.txt").write_text(filler(topic, 18))
    (docs / "long.txt").write_text(f"{filler('weaving', 18)} {FACT}")
    encoder = load_encoder()
    with make_store(tmp_path / "c", backbone, encoder, chunk_tokens=512) as store:
        report = Ingest(store, backbone, encoder).run(find_sources([docs]))
        assert report.chunks == len(TOPICS) + 1
        lengths = [chunk.num_tokens for document in store.documents() for chunk in store.chunks_of(document.id)]
        windows = [len(entry.keys) for entry in store.iter_keys()]
    assert max(lengths) > 480
    assert max(windows) > 1
    with Searcher(tmp_path / "c", retrieval=retrieval) as searcher:
        found = searcher.search("Who keeps the password of the observatory?", 1).found[0]
    assert found.chunk.source.endswith("long.txt")
    assert found.chunk.info.text.endswith(FACT)
    alone = encoder.encode_query("Who keeps the password of the observatory?")
    keys = encoder.encode_passages([found.chunk.info.text])[0]
    assert (keys @ alone).argmax() == len(keys) - 1
