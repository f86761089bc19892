"""The ways to a first token that need no reading: injected, grounded, and without any context."""

import statistics
import time
import zlib
from collections.abc import Sequence

from precog.backbones.protocol import Backbone
from precog.bench.harness import Side
from precog.bench.raw import RawReader
from precog.bench.result import Value
from precog.bench.synthetic import Fact
from precog.corpus.model import state_reader
from precog.corpus.search import Searcher
from precog.engine import FreeSettings, GroundedSettings, Source, answer_inject, answer_none, ground, question_segment
from precog.errors import PrecogError
from precog.state import compose
from precog.store import Record

_TOP_K = 3
_FIRST_TOKEN = FreeSettings(max_tokens=1)


class Asking:
    """One question after the other, stage by stage, through the parts that ``precog ask`` is made of."""

    def __init__(self, searcher: Searcher, backbone: Backbone, facts: Sequence[Fact], raw: RawReader) -> None:
        self._searcher = searcher
        self._backbone = backbone
        self._facts = facts
        self._states = state_reader(searcher.store, searcher.settings, backbone)
        self._raw = raw
        self.segments = [question_segment(backbone, fact.question) for fact in facts]

    def check(self) -> None:
        """Every question finds the chunk that answers it; otherwise something else would be measured."""
        for fact in self._facts:
            found = self._searcher.search(fact.question, 1).found
            if not found or found[0].chunk.info.text != fact.passage:
                raise PrecogError("a question does not find its own passage", given=fact.question)

    def sides(self) -> list[Side]:
        """What is compared in each round."""
        return [self._inject, self._grounded, self._none, self._parts]

    def _retrieve(self, number: int) -> tuple[dict[str, float], Record, float]:
        question = self._facts[number % len(self._facts)].question
        result = self._searcher.search(question, _TOP_K)
        searched = time.perf_counter()
        record = self._searcher.store.read_state(result.found[0].chunk)
        seconds = {"encode": result.encode_sec, "search": result.search_sec, "load": time.perf_counter() - searched}
        return seconds, record, result.found[0].hit.score

    def _inject(self, number: int) -> dict[str, float]:
        started = time.perf_counter()
        seconds, record, score = self._retrieve(number)
        loaded = time.perf_counter()
        state = compose([self._states.state(record)], [score], self._backbone.spec).state
        composed = time.perf_counter()
        answer = answer_inject(self._backbone, state, self._segment(number), settings=_FIRST_TOKEN)
        ttft = composed - started + answer.first_token_sec
        begun = time.perf_counter()
        self._backbone.open([state])
        opening = time.perf_counter() - begun  # part of the first token's time above, of injection here
        return {**seconds, "inject": composed - loaded + opening, "ttft_inject": ttft}

    def _grounded(self, number: int) -> dict[str, float]:
        started = time.perf_counter()
        seconds, record, score = self._retrieve(number)
        state = compose([self._states.state(record)], [score], self._backbone.spec).state
        source = _source(record)
        composed = time.perf_counter()
        found = ground(self._backbone, state, self._segment(number), [source], GroundedSettings(max_span_tokens=1))
        ttft = composed - started + found.first_token_sec
        return {"ttft_grounded": ttft, "grounded_encode": seconds["encode"]}

    def _none(self, number: int) -> dict[str, float]:
        answer = answer_none(self._backbone, self._segment(number), settings=_FIRST_TOKEN)
        return {"ttft_none": answer.first_token_sec}

    def _parts(self, number: int) -> dict[str, float]:
        """What a load is made of: the bare read and the bare checksum of the same bytes."""
        question = self._facts[number % len(self._facts)].question
        chunk = self._searcher.search(question, 1).found[0].chunk
        started = time.perf_counter()
        data = self._raw.read(chunk.location)
        read = time.perf_counter()
        zlib.crc32(data)
        return {"pread": read - started, "crc": time.perf_counter() - read}

    def masks(self, answers: int) -> dict[str, Value]:
        """Bytes and seconds of the mask, over whole grounded answers as the model's card wants them."""
        settings = GroundedSettings.from_card(self._backbone.card.decoding)
        found = []
        for number in range(answers):
            _, record, score = self._retrieve(number)
            state = compose([self._states.state(record)], [score], self._backbone.spec).state
            found.append(ground(self._backbone, state, self._segment(number), [_source(record)], settings))
        return {
            "per_answer_sec": statistics.median(answer.mask_sec for answer in found),
            "per_answer_bytes": statistics.median(answer.mask_bytes for answer in found),
            "share_of_answer": statistics.median(answer.mask_sec / answer.total_sec for answer in found),
            "answer_sec": statistics.median(answer.total_sec for answer in found),
            "tokens_processed": statistics.median(answer.tokens_processed for answer in found),
        }

    def _segment(self, number: int) -> list[int]:
        return self.segments[number % len(self.segments)]


def _source(record: Record) -> Source:
    return Source.of(record.token_ids, record.suffix_array)
