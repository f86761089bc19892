"""The components, alone and in a pipeline that is written to a file and read again."""

import copy

import pytest
from haystack import Pipeline

from precog.errors import CorpusError
from precog.memory.utterance import Utterance
from precog.plugins.haystack import PrecogAnswerer, PrecogRetriever
from precog.plugins.knowledge import Knowledge


def test_a_pipeline_retrieves_and_answers(corpus: str) -> None:
    made = Pipeline()
    made.add_component("find", PrecogRetriever(corpus, top_k=1))
    made.add_component("answer", PrecogAnswerer(corpus, always_answer=True))
    pipeline = Pipeline.loads(made.dumps(), allowed_modules=["precog.plugins.haystack"])
    query = "Who built the lighthouse?"
    found = pipeline.run({"find": {"query": query}, "answer": {"query": query}})
    [document] = found["find"]["documents"]
    assert "Ada Quill" in document.content
    assert document.meta["document"].endswith("lighthouse.txt")
    [answer] = found["answer"]["answers"]
    assert answer.data in document.content
    assert answer.documents[0].content == document.content
    assert answer.meta["model"] == "tiny"


def test_a_memory_is_retrieved_and_answered_from() -> None:
    with Knowledge(user="ana") as knowledge:
        knowledge.remember([Utterance("Clara moved to Lisbon.", None, "Ana")])
    [document] = PrecogRetriever(user="ana").run("Where is Clara?", top_k=1)["documents"]
    assert (document.content, document.meta["speaker"]) == ("Clara moved to Lisbon.", "Ana")
    answered = PrecogAnswerer(user="ana", always_answer=True).run("Where did Clara move?")
    assert answered["documents"][0].content == "Clara moved to Lisbon."


def test_nothing_is_opened_before_it_is_asked(corpus: str) -> None:
    component = PrecogAnswerer(corpus + "-none")
    with pytest.raises(CorpusError):
        component.run("Who?")


def test_what_a_setting_said_before_answers_nothing_and_copies_open_by_themselves(corpus: str) -> None:
    made = PrecogRetriever(corpus, top_k=1), PrecogAnswerer(corpus, always_answer=True)
    for component in made:
        assert component.run("Who built the lighthouse?")["documents"]
        assert copy.deepcopy(component).run("Who built the lighthouse?")
        component.corpus = corpus + "-none"
        with pytest.raises(CorpusError):
            component.run("Who built the lighthouse?")
