"""How texts come into the model: every way to the same context gives the same answer, and says why it was taken."""

import json
from pathlib import Path

import pytest
from tiny_corpus import WordEncoder, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.corpus import corpus as corpus_module
from precog.corpus.ask import Asker, AskOptions
from precog.plan.probe import SPEED_FILE
from precog.records import ModelChoice

QUESTION = "When did ship 3 sail?"


@pytest.fixture
def asker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backbone: TennsBackbone, encoder: WordEncoder):
    monkeypatch.setattr(corpus_module, "load_encoder", lambda _spec: encoder)
    save_model(tmp_path / "tiny", backbone.model, name="tiny", tokenizer_sha256=backbone.tokenizer.sha256)
    write(tmp_path / "docs", "ships.txt", numbered(0, 12))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder, codec="fp32")
    home = tmp_path / "home"
    with Asker(tmp_path / "c", model=ModelChoice(str(tmp_path / "tiny"), "cpu"), home=home) as opened:
        yield opened


def test_auto_takes_one_of_the_ways_to_the_same_answer(asker: Asker, tmp_path: Path) -> None:
    by_hand = {mode: asker.ask(QUESTION, AskOptions(mode=mode)) for mode in ("inject", "in-context", "resume")}
    assert len({answer.text for answer in by_hand.values()}) == 1
    assert {answer.plan.reason for answer in by_hand.values() if answer.plan} == {"asked for"}
    chosen = asker.ask(QUESTION, AskOptions(mode="auto"))
    assert chosen.text == by_hand["inject"].text
    assert chosen.plan is not None
    assert set(chosen.plan.estimates_sec) == {"inject", "in-context"}
    assert chosen.plan.estimates_sec[chosen.plan.way] == min(chosen.plan.estimates_sec.values())
    assert chosen.to_json()["plan"] == chosen.plan.to_json()
    measured = json.loads((tmp_path / "home" / SPEED_FILE).read_text())
    assert len(measured) == 2
    assert asker.ask(QUESTION, AskOptions(mode="auto")).plan == chosen.plan  # measured once


def test_resuming_reads_every_text_but_the_longest(asker: Asker) -> None:
    resumed = asker.ask(QUESTION, AskOptions(mode="resume", inject=3))
    replayed = asker.ask(QUESTION, AskOptions(mode="inject", compose="replay", inject=3))
    assert resumed.text == replayed.text
    assert resumed.mixture.rule == "replay"
    assert resumed.mixture.exact
    members = [found.chunk.num_tokens + 1 for found in resumed.sources]
    question_and_answer = asker.ask(QUESTION).tokens_processed
    assert (
        sum(members) - max(members) <= resumed.tokens_processed <= sum(members) + 2 * question_and_answer - max(members)
    )


def test_auto_with_several_states_keeps_to_the_rule_that_was_asked_for(asker: Asker) -> None:
    mixed = asker.ask(QUESTION, AskOptions(mode="auto", inject=2))
    assert mixed.plan is not None
    assert mixed.plan.way == "inject"
    assert mixed.mixture.rule == "mix"
    replayed = asker.ask(QUESTION, AskOptions(mode="auto", inject=2, compose="replay"))
    assert replayed.plan is not None
    assert set(replayed.plan.estimates_sec) == {"resume", "in-context"}


def test_a_damaged_record_of_speeds_is_measured_anew(asker: Asker, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / SPEED_FILE).write_text('{"disk 1": 3, ')
    assert asker.ask(QUESTION, AskOptions(mode="auto")).plan is not None
    assert json.loads((home / SPEED_FILE).read_text())
