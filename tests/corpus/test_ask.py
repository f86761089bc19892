import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_corpus import WordEncoder, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.kept import keep_confidence
from precog.corpus import corpus as corpus_module
from precog.corpus import indexing as indexing_module
from precog.corpus.answer import NOT_FOUND, characters_of
from precog.corpus.ask import Asker, AskOptions
from precog.corpus.indexing import IndexRequest, add_sources, create_corpus, index_documents
from precog.corpus.search import Searcher
from precog.engine.composed import RULES
from precog.engine.grounded import GroundedSettings
from precog.engine.sampling import Sampling
from precog.errors import CorpusError, DamagedStateError, ForeignStateError, UsageError
from precog.records import ModelChoice
from precog.store import Chunk, ChunkInfo, CorpusStore, Location
from precog.text.document import document_text
from precog.text.loading import load_document
from precog.text.sources import Source, SourceList, file_source

LIGHTHOUSE = "The lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil."
MILL = "A mill stands on the river Ouse. Its wheel was made of oak by Tom Reed in 1790."


@pytest.fixture(autouse=True)
def _word_keys(monkeypatch: pytest.MonkeyPatch, encoder: WordEncoder) -> None:
    monkeypatch.setattr(corpus_module, "load_encoder", lambda _spec: encoder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, backbone: TennsBackbone) -> ModelChoice:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(folder, backbone.model, name="tiny", tokenizer_sha256=backbone.tokenizer.sha256)
    return ModelChoice(str(folder), "cpu")


@pytest.fixture
def corpus(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> Path:
    docs = tmp_path / "docs"
    write(docs, "lighthouse.md", f"# Buildings\n\n{LIGHTHOUSE}\n")
    write(docs, "mill.txt", MILL)
    write(docs, "ships.txt", numbered(0, 5))
    run(tmp_path / "c", docs, backbone, encoder, codec="fp32")
    return tmp_path / "c"


def test_the_answer_is_cited_to_the_character(corpus: Path, model: ModelChoice) -> None:
    with Asker(corpus, model=model) as asker:
        answer = asker.ask("Who built the lighthouse of Marrow?")
    assert not answer.abstained
    assert answer.citation is not None
    assert answer.sources[0].chunk.source.endswith("lighthouse.md")
    assert len(answer.sources) == 3
    text = document_text(load_document(file_source(Path(answer.citation.document))))
    start, end = answer.citation.span
    assert text[start:end] == answer.text
    assert answer.mixture.exact
    assert answer.mixture.weights == (1.0,)
    assert 0 <= answer.confidence <= 1
    assert answer.mask_bytes > 0


def test_injecting_reads_question_and_answer_only_and_says_what_reading_says(corpus: Path, model: ModelChoice) -> None:
    question = "Who built the lighthouse of Marrow?"
    with Asker(corpus, model=model) as asker:
        injected = asker.ask(question)
        read = asker.ask(question, AskOptions(mode="in-context"))
        free = asker.ask(question, AskOptions(free=True, max_tokens=5))
        free_read = asker.ask(question, AskOptions(mode="in-context", free=True, max_tokens=5))
    assert injected.text == read.text
    assert injected.citation == read.citation
    assert abs(injected.confidence - read.confidence) < 1e-3
    assert free.text == free_read.text
    assert free.citation is None
    num_context = read.sources[0].chunk.num_tokens + 1  # the chunk and its boundary
    assert read.tokens_processed - injected.tokens_processed == num_context
    assert free_read.tokens_processed - free.tokens_processed == num_context
    assert injected.timings.inject > 0
    assert read.timings.inject == 0


def test_an_open_corpus_is_asked_and_stays_open(corpus: Path, model: ModelChoice, encoder: WordEncoder) -> None:
    with Searcher(corpus, encoder=encoder) as searcher:
        answers = []
        for _ in range(2):
            with Asker(searcher, model=model) as asker:
                answers.append(asker.ask("Who built the lighthouse of Marrow?"))
        assert answers[0].citation == answers[1].citation is not None
        assert searcher.search("Marrow", 1).found
    with Asker(corpus, model=model) as asker:
        assert asker.ask("Who built the lighthouse of Marrow?").citation == answers[0].citation


def test_many_threads_ask_one_open_corpus(corpus: Path, model: ModelChoice, encoder: WordEncoder) -> None:
    question = "Who made the wheel of oak?"
    loaded = replace(model, loaded=model.load("once"))
    with Searcher(corpus, encoder=encoder) as searcher, ThreadPoolExecutor(4) as pool:

        def ask(_: int) -> str:
            with Asker(searcher, model=loaded) as asker:
                return asker.ask(question, AskOptions(always_answer=True)).text

        texts = set(pool.map(ask, range(12)))
    assert len(texts) == 1


def test_a_plan_is_that_of_asking(corpus: Path, model: ModelChoice, tmp_path: Path) -> None:
    question = "Who built the lighthouse of Marrow?"
    with Asker(corpus, model=model, home=tmp_path / "home") as asker:
        plan, needs = asker.plan(question, AskOptions(mode="auto", inject=2, compose="replay"))
        assert plan is not None
        assert plan == asker.ask(question, AskOptions(mode="auto", inject=2, compose="replay")).plan
        assert len(needs) == 2
        assert all(need.is_stored for need in needs)


def test_timings_add_up(corpus: Path, model: ModelChoice) -> None:
    with Asker(corpus, model=model) as asker:
        first, second = asker.ask("Who built the mill?"), asker.ask("Who built the mill?")
    times = first.timings
    assert times.startup > 0
    assert second.timings.startup == 0
    assert times.injection_overhead == times.encode + times.search + times.load + times.inject
    assert times.ttft == times.injection_overhead + times.first_token
    assert times.startup + times.ttft <= times.total


def test_several_states_are_composed_and_say_so(corpus: Path, model: ModelChoice) -> None:
    with Asker(corpus, model=model) as asker:
        answer = asker.ask("Who built the mill?", AskOptions(inject=2, compose="mean", compose_temperature=0.5))
    assert not answer.mixture.exact
    assert len(answer.mixture.weights) == 2
    assert sum(answer.mixture.weights) == pytest.approx(1)
    assert answer.to_json()["composition"] == {
        "rule": "mean",
        "exact": False,
        "refined": False,
        "members": [{"source": n, "weight": w} for n, w in enumerate(answer.mixture.weights)],
    }


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_of_composition_answers_and_declares_itself(
    corpus: Path, model: ModelChoice, rule: str, free: bool
) -> None:
    with Asker(corpus, model=model) as asker:
        answer = asker.ask("Who built the mill?", AskOptions(inject=3, compose=rule, free=free, max_tokens=6))
        part = asker.ask("Who built the mill?", AskOptions(inject=3, compose=rule, layers="bottom:1", free=free))
        alone = asker.ask("Who built the mill?", AskOptions(inject=1, compose=rule, free=free, max_tokens=6))
        plain = asker.ask("Who built the mill?", AskOptions(inject=1, free=free, max_tokens=6))
    assert answer.mixture.rule == rule
    assert answer.mixture.exact == (rule in ("mix", "replay"))
    assert not part.mixture.exact
    assert sum(answer.mixture.weights) == pytest.approx(1)
    assert answer.text
    assert alone.mixture.exact
    assert (alone.text, alone.citation) == (plain.text, plain.citation)
    assert alone.tokens_processed == plain.tokens_processed


def test_replaying_says_what_reading_in_its_order_says(corpus: Path, model: ModelChoice) -> None:
    question = "What stands on the river Ouse, and who built its wheel of oak?"
    with Asker(corpus, model=model) as asker:
        replayed = asker.ask(question, AskOptions(inject=2, compose="replay"))
        read = asker.ask(question, AskOptions(mode="in-context", inject=2))
    best, second = (found.chunk.num_tokens for found in read.sources[:2])
    assert second > best  # the longest is the first to be read in both
    assert replayed.text == read.text
    assert abs(replayed.confidence - read.confidence) < 1e-3
    assert read.tokens_processed - replayed.tokens_processed == second + 1


def test_a_rule_that_does_not_exist_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(UsageError, match="--compose: no such rule"):
        AskOptions(compose="soup")
    with pytest.raises(UsageError, match="--compose-renorm"):
        AskOptions(compose_renorm="row")
    with pytest.raises(UsageError, match="--compose-temperature"):
        AskOptions(compose_temperature=0.0)


def test_a_low_confidence_is_no_answer(
    tmp_path: Path, corpus: Path, model: ModelChoice, backbone: TennsBackbone
) -> None:
    said: list[str] = []
    with Asker(corpus, model=model) as asker:
        answer = asker.ask("Who built the mill?", AskOptions(min_confidence=1.0), on_text=said.append)
        forced = asker.ask("Who built the mill?", AskOptions(always_answer=True))
        plain = asker.ask("Who built the mill?")
    strict = tmp_path / "strict"
    sha256, decoding = backbone.tokenizer.sha256, {"min_confidence": 1.0}
    save_model(strict, backbone.model, name="strict", tokenizer_sha256=sha256, decoding=decoding)
    with Asker(corpus, model=ModelChoice(str(strict), "cpu")) as asker:
        by_card = asker.ask("Who built the mill?")
    assert (answer.text, answer.abstained, answer.sources, answer.citation) == (NOT_FOUND, True, [], None)
    told = answer.to_json()
    assert (told["sources"], told["composition"]["members"]) == ([], [])  # type: ignore[index]  # plain JSON
    assert [entry["document"] for entry in told["looked_at"]] == [found.chunk.source for found in plain.sources]  # type: ignore[attr-defined]
    assert plain.sources
    assert plain.to_json()["looked_at"] == []
    assert said == [NOT_FOUND]
    assert forced.text == plain.text
    assert not plain.abstained
    assert GroundedSettings().min_confidence == 0
    assert by_card.abstained


def test_a_model_with_coefficients_says_how_likely_it_is_right(
    tmp_path: Path, corpus: Path, model: ModelChoice, backbone: TennsBackbone
) -> None:
    folder = tmp_path / "calibrated"
    save_model(folder, backbone.model, name="calibrated", tokenizer_sha256=backbone.tokenizer.sha256)
    keep_confidence(folder, {"bias": -1.0, "weights": {"log_probability": 0.0}, "threshold": 0.2, "fitted": {}})
    with Asker(corpus, model=ModelChoice(str(folder), "cpu")) as asker:
        answer = asker.ask("Who built the mill?")
        strict = asker.ask("Who built the mill?", AskOptions(min_confidence=0.3))
        free = asker.ask("Who built the mill?", AskOptions(free=True, max_tokens=2))
    assert answer.confidence == pytest.approx(1 / (1 + math.exp(1)))
    assert not answer.abstained
    assert strict.abstained
    assert (free.confidence, free.abstained) == (None, False)
    assert free.to_json()["confidence"] is None


def test_what_streams_is_what_is_said(corpus: Path, model: ModelChoice) -> None:
    with Asker(corpus, model=model) as asker:
        for options in (AskOptions(), AskOptions(free=True, max_tokens=6), AskOptions(mode="none", max_tokens=6)):
            said: list[str] = []
            answer = asker.ask("Who built the mill?", options, on_text=said.append)
            assert "".join(said) == answer.text


def test_sampling_repeats_under_a_seed(corpus: Path, model: ModelChoice) -> None:
    options = AskOptions(free=True, max_tokens=8, sampling=Sampling(temperature=1.0, seed=3))
    with Asker(corpus, model=model) as asker:
        assert asker.ask("What?", options).text == asker.ask("What?", options).text


def test_layers_left_out_change_the_state_and_the_flag(corpus: Path, model: ModelChoice) -> None:
    with Asker(corpus, model=model) as asker:
        answer = asker.ask("Who built the mill?", AskOptions(layers="bottom:1"))
        nothing = asker.ask("Who built the mill?", AskOptions(layers="none", free=True, max_tokens=4))
        bare = asker.ask("Who built the mill?", AskOptions(mode="none", max_tokens=4))
    assert not answer.mixture.exact
    assert nothing.text == bare.text


def test_asking_changes_no_byte_of_the_corpus(corpus: Path, model: ModelChoice) -> None:
    files = [path for path in corpus.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    before = {path: path.read_bytes() for path in files}
    with Asker(corpus, model=model) as asker:
        asker.ask("Who built the mill?")
    assert {path: path.read_bytes() for path in files} == before


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "magic"},
        {"top_k": 0},
        {"inject": 4},
        {"inject": 0},
        {"max_tokens": 0},
        {"min_confidence": 1.5},
        {"min_confidence": 0.5, "free": True},
        {"min_confidence": 0.5, "always_answer": True},
        {"min_confidence": 0.5, "mode": "none"},
        {"sampling": Sampling(temperature=0.5)},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        AskOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("question", ["", "  \n "])
def test_an_empty_question_is_refused(corpus: Path, model: ModelChoice, question: str) -> None:
    with Asker(corpus, model=model) as asker, pytest.raises(UsageError, match="empty"):
        asker.ask(question)


def test_a_very_long_question_is_answered(corpus: Path, model: ModelChoice) -> None:
    with Asker(corpus, model=model) as asker:
        answer = asker.ask("why " * 10_000 + "was the mill built?")
    assert answer.tokens_processed > 10_000


def test_an_empty_corpus_says_so(
    tmp_path: Path, model: ModelChoice, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    write(tmp_path / "docs", "a.txt", "")
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    with Asker(tmp_path / "c", model=model) as asker, pytest.raises(CorpusError, match="nothing in this corpus"):
        asker.ask("Who?")


def test_the_state_of_another_model_is_refused(tmp_path: Path, corpus: Path, backbone: TennsBackbone) -> None:
    other = TennsBackbone.random("tiny-outer", backbone.tokenizer, seed=5)
    save_model(tmp_path / "other", other.model, name="other", tokenizer_sha256=backbone.tokenizer.sha256)
    with pytest.raises(ForeignStateError, match="reindex"):
        Asker(corpus, model=ModelChoice(str(tmp_path / "other")))


def test_a_flipped_byte_is_noticed(corpus: Path, model: ModelChoice) -> None:
    with CorpusStore.open(corpus) as store:
        record_bytes = store.layout.record_bytes
    [segment] = corpus.rglob("*.seg")
    data = bytearray(segment.read_bytes())
    for start in range(4096, len(data), record_bytes):
        data[start + 500] ^= 1
    segment.write_bytes(data)
    with Asker(corpus, model=model) as asker, pytest.raises(DamagedStateError, match="damaged"):
        asker.ask("Who built the mill?")


@pytest.mark.parametrize("what", ["removed", "moved"])
def test_a_corpus_that_went_away_answers_no_more(corpus: Path, model: ModelChoice, what: str) -> None:
    with Asker(corpus, model=model) as asker:
        asker.ask("Who built the lighthouse of Marrow?")
        if what == "removed":
            shutil.rmtree(corpus)
        else:
            corpus.rename(corpus.with_name("elsewhere"))
        with pytest.raises(CorpusError, match="replaced or removed"):
            asker.ask("Who built the lighthouse of Marrow?")


def test_characters_of_a_chunk_are_those_of_its_document() -> None:
    info = ChunkInfo(0, None, (100, 120), "some words of a text", context="Heading\n")
    chunk = Chunk(1, 1, "a.md", info, 1, 9, Location(0, 0), bytes(32))
    assert characters_of(chunk, 8, 13) == (100, 104)  # without the white space at its end
    assert characters_of(chunk, 0, 7) is None  # the heading stands elsewhere
    assert characters_of(chunk, 12, 13) is None


@pytest.mark.parametrize("mode", ["once", "twice", "twice-reversed"])
def test_a_chunk_read_twice_is_read_twice_in_context_too(
    tmp_path: Path, model: ModelChoice, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(indexing_module, "load_encoder", lambda _spec: encoder)
    docs = tmp_path / "docs"
    write(docs, "mill.txt", MILL)
    wanted = {"encode_mode": mode, "codec": "fp32"}
    index_documents(IndexRequest((str(docs),), tmp_path / "c", model=model, wanted=wanted))
    question = "Who made the wheel of the mill?"
    with Asker(tmp_path / "c", model=model) as asker:
        assert asker.backbone.encode_mode == mode
        injected, read = asker.ask(question), asker.ask(question, AskOptions(mode="in-context"))
    assert injected.text == read.text
    assert abs(injected.confidence - read.confidence) < 1e-4
    num_context = read.tokens_processed - injected.tokens_processed
    assert num_context == (1 if mode == "once" else 2) * (read.sources[0].chunk.num_tokens + 1)


def test_an_empty_corpus_takes_sources_under_names_of_their_own(
    tmp_path: Path, model: ModelChoice, encoder: WordEncoder
) -> None:
    request = IndexRequest((), tmp_path / "c", model, encoder, wanted={"codec": "int8"}, budget_bytes=10**9)
    with pytest.raises(CorpusError):
        add_sources(request, SourceList((), {}))
    create_corpus(request)
    with CorpusStore.open(tmp_path / "c") as store:
        assert (store.size().num_documents, store.settings["codec"], store.state_budget_bytes) == (0, "int8", 10**9)
    for name, text in (("notes.txt", LIGHTHOUSE), ("other.txt", MILL)):
        (tmp_path / "000000").write_text(text)
        report = add_sources(request, SourceList((Source(name, tmp_path / "000000"),), {}))
        assert (report.new, report.missing) == (1, [])
    with CorpusStore.open(tmp_path / "c") as store:
        assert [row.info.source for row in store.documents()] == ["notes.txt", "other.txt"]
    with pytest.raises(CorpusError):
        create_corpus(request)


def test_a_model_that_is_open_reads_as_the_corpus_wants(
    tmp_path: Path, model: ModelChoice, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    request = IndexRequest((), tmp_path / "c", replace(model, loaded=backbone), encoder, wanted={"quality": "twice"})
    create_corpus(request)
    with CorpusStore.open(tmp_path / "c") as store:
        assert store.fingerprint.hex() == backbone.with_encode_mode("twice").fingerprint != backbone.fingerprint
