"""The shipped checkpoint does what the README says: it answers from states, exactly, and says where from.

Skipped where no model is installed; `scripts/test` installs the one in `weights/`.
"""

import json
from pathlib import Path

import pytest

from precog.backbones.registry import installed_models, load_backbone
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.cli.main import main
from precog.engine.grounded import GroundedSettings
from precog.evaluate.experiment import measured
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.squad import Squad, SquadSettings
from precog.evaluate.squad_data import Question
from precog.text.tokenizer import load_mistral_tokenizer

NAME = "tenns-base"
pytestmark = pytest.mark.skipif(NAME not in installed_models(), reason="the model distribution is not installed")

FACTS = (
    "The lighthouse at Cape Morrow was designed by Helena Brandt and lit for the first time in 1887.",
    "Its keeper, Jonas Whitlock, counted 412 ships in the first winter and wrote their names on the wall.",
    "The lamp burned whale oil until the harbour company bought a generator from Bristol.",
)
QUESTIONS = (
    ("Who designed the lighthouse at Cape Morrow?", "Helena Brandt"),
    ("How many ships did the keeper count in the first winter?", "412"),
    ("Where did the harbour company buy the generator?", "Bristol"),
)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    printed = capsys.readouterr()
    assert exit_.value.code == 0, printed.err
    return json.loads(printed.out.strip().splitlines()[-1])


def test_the_files_are_small_enough_to_be_shipped():
    folder = installed_models()[NAME]
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert max(sizes) < 48_000_000
    assert sum(sizes) < 80_000_000


def test_injected_answers_are_the_answers_of_reading():
    paragraph = " ".join(FACTS)
    questions = [Question(str(i), "t", paragraph, q, (a,)) for i, (q, a) in enumerate(QUESTIONS)]
    reader = ParagraphReader(load_backbone(NAME), "fp32", GroundedSettings())
    experiment = Squad(questions, questions, reader, SquadSettings(modes=("in_context", "inject_top1", "none")))
    records = measured(experiment)
    report = experiment.report(records)
    assert report["agreement"]["inject_top1"] == 1.0
    right = [record["answers"][0] in record["said"]["inject_top1"]["text"] for record in records]
    assert sum(right) >= 2, [record["said"]["inject_top1"] for record in records]


def filler(tokens):
    """Paragraphs about other things, of roughly so many tokens."""
    tokenizer = load_mistral_tokenizer()
    sentences = []
    for number in range(1, 200):
        sentences.append(f"The market on street {number} sells apples, bread and cloth on most mornings of the week.")
        if len(tokenizer.encode(" ".join(sentences))) >= tokens:
            break
    return " ".join(sentences)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    last = "The old bridge in Velmora was built by Katrin Osterholt."
    document: Path = folder / "long.txt"
    document.write_text(f"{filler(460)} {last}")
    (folder / "lighthouse.txt").write_text(" ".join(FACTS))
    return folder, document


def test_a_fact_at_the_end_of_a_long_chunk_is_found_answered_and_cited(corpus, capsys):
    folder, document = corpus
    index = run(capsys, "index", str(folder), "--corpus", str(folder / "c"), "--chunk-tokens", "512", "--json")
    assert index["chunks"] == 2
    answer = run(capsys, "ask", "Who built the old bridge in Velmora?", "--corpus", str(folder / "c"), "--json")
    assert "Katrin Osterholt" in answer["text"]
    source = answer["sources"][0]
    assert source["document"].endswith(document.name)
    assert len(load_mistral_tokenizer().encode(source["text"])) > 450
    assert answer["tokens_processed"] < 60  # question and answer, never the chunk


def test_a_corpus_of_another_model_moves_to_it_without_its_documents(tmp_path, capsys):
    save_model(
        tmp_path / "tiny",
        build(TennsConfig.preset("tiny"), seed=0),
        name="tiny",
        tokenizer_sha256=load_mistral_tokenizer().sha256,
    )
    document = tmp_path / "lighthouse.txt"
    document.write_text(" ".join(FACTS))
    corpus = str(tmp_path / "c")
    run(capsys, "index", str(document), "--corpus", corpus, "--model", str(tmp_path / "tiny"), "--json")
    document.unlink()
    run(capsys, "reindex", "--corpus", corpus, "--model", NAME, "--json")
    answer = run(capsys, "ask", QUESTIONS[0][0], "--corpus", corpus, "--json")
    assert answer["text"] == QUESTIONS[0][1]
