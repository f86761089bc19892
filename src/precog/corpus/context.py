"""How the texts an answer needs come into the model: from stored states, by reading them again, or by a bit of both.

A state that is not stored any more, because the corpus has a budget, is made again from the text and rounded as its
record was: the answer is the same, it only takes longer.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.corpus.search import Found
from precog.corpus.settings import CorpusSettings
from precog.engine.mask import Source
from precog.errors import DamagedCorpusError, DamagedStateError
from precog.plan import Need, Plan, ReadSpeed, Speed, choose
from precog.plan.probe import disk_speed, model_speed
from precog.records import StateReader
from precog.refine.focus import focus
from precog.state import LayerSubset, State
from precog.store import CorpusStore, Part, Record

_SAMPLES = 8  # records read to learn how fast the disk is


@dataclass(frozen=True)
class Opened:
    """A text's state, ready to be asked.

    Attributes:
        state: of the whole text, or focused on one of its parts.
        focus: characters of the document that it is focused on; None where it is not.
        tokens_read: to make states again that gave way, and to choose the part.
    """

    state: State
    focus: tuple[int, int] | None
    tokens_read: int


class Text:
    """One retrieved chunk, its record read only when somebody looks at it.

    Args:
        found: the chunk.
        store: the corpus.
        states: the way from its records to states.
        backbone: the model.
        parts: of the chunk, the nearest first, that the question may be about, with their nearness; none to leave its
            state as it is.
    """

    def __init__(
        self,
        found: Found,
        store: CorpusStore,
        states: StateReader,
        backbone: Backbone,
        parts: Sequence[tuple[Part, float]] = (),
    ) -> None:
        self.found = found
        self.parts = [part for part, _ in parts]
        self._nearness = [near for _, near in parts]
        self._store, self._states, self._backbone = store, states, backbone

    @property
    def is_stored(self) -> bool:
        """Whether its state is on the disk."""
        return self.found.chunk.is_stored

    @cached_property
    def record(self) -> Record:
        """Its record, checked.

        Raises:
            DamagedStateError: it is not what was written.
        """
        return self._store.read_state(self.found.chunk)

    @cached_property
    def part_records(self) -> list[Record | None]:
        """The records of its parts, checked; None for one whose state is not stored.

        Raises:
            DamagedStateError: one is not what was written.
        """
        return [self._store.read_part(part) if part.is_stored else None for part in self.parts]

    @property
    def is_refined(self) -> bool:
        """Whether its stored state is more than reading gives; one that gave way is read again, and no longer is."""
        return self.is_stored and self.record.refined

    @cached_property
    def token_ids(self) -> list[int]:
        """What its state has read: from the record if that is there already, else from the text."""
        if "record" in self.__dict__:
            ids: list[int] = self.record.token_ids.tolist()
            return ids
        info = self.found.chunk.info
        return self._backbone.tokenizer.encode(info.context + info.text)

    def source(self) -> Source:
        """What a grounded answer may be taken from."""
        if "record" in self.__dict__:
            suffixes = self.record.suffix_array
            return Source.of(self.record.token_ids, suffixes if len(suffixes) else None)
        return Source.of(self.token_ids)

    def open(self, question_ids: Sequence[int], layers: LayerSubset | None = None) -> Opened:
        """Its state as records give it back, focused on the part that is asked about; what gave way is read again.

        Args:
            question_ids: the question's segment, boundary first.
            layers: that are kept; all when None.
        """
        own = self._own(self.record if self.is_stored else None, self.token_ids, layers)
        if not self.parts:
            return Opened(own, None, self.reread_tokens)
        info = self.found.chunk.info
        read = []
        for part, record in zip(self.parts, self.part_records, strict=True):
            ids = self._backbone.tokenizer.encode(info.text[slice(*part.span)])
            read.append(self._own(record, ids, layers))
        made = focus(self._backbone, own, read, self._nearness, question_ids)
        start, stop = self.parts[made.number].span
        return Opened(made.state, (info.span[0] + start, info.span[0] + stop), self.reread_tokens + made.tokens_read)

    def _own(self, record: Record | None, token_ids: list[int], layers: LayerSubset | None) -> State:
        if record is not None:
            return self._states.state(record, layers)
        [state] = self._backbone.encode_chunks([token_ids])
        return self._states.kept(state, layers)

    @property
    def reread_tokens(self) -> int:
        """Tokens that have to be read again because a state gave way."""
        missing = 0 if self.is_stored else len(self.token_ids)
        return missing + sum(part.num_tokens for part in self.parts if not part.is_stored)


@dataclass(frozen=True)
class Planner:
    """Chooses between loading and reading, from what was measured on this machine.

    Attributes:
        backbone: the model.
        store: the corpus.
        settings: of the corpus.
        home: where measurements are kept.
    """

    backbone: Backbone
    store: CorpusStore
    settings: CorpusSettings
    home: Path

    def plan(self, texts: Sequence[Text], rule: str) -> Plan:
        """The quickest way to the context that was asked for.

        One text is the same context whether injected or read. Several are only where the rule reads them one after
        the other (``replay``); every other rule needs their states.
        """
        ways = ("inject", "in-context") if len(texts) == 1 else ("resume", "in-context")
        if len(texts) > 1 and rule != "replay":
            return Plan("inject", f"{rule} needs the state of every text", {})
        speed, disk = self.speeds()
        return choose([self.need(text) for text in texts], speed, disk, ways)

    def speeds(self) -> tuple[Speed, ReadSpeed]:
        """How fast the model and the disk are here, measured where it is not known yet."""
        speed = model_speed(self.backbone, self.settings.codec, self.home)
        return speed, disk_speed(self.store.path, self._read_some, self.home)

    def need(self, text: Text) -> Need:
        """What one text takes."""
        tokens = text.found.chunk.num_tokens
        if not text.is_stored:
            return Need(tokens, 0, 0)
        return Need(tokens, self.store.layout.state_bytes, self.store.layout.record_bytes)

    def _read_some(self) -> list[tuple[int, float]]:
        """Bytes and seconds of a few records, no matter whether the system holds them in memory already."""
        ids = list(self.store.visible_chunk_ids())
        drawn = random.Random(0).sample(ids, min(_SAMPLES, len(ids)))
        found = []
        for chunk in self.store.chunks(drawn).values():
            if chunk.is_stored:
                started = time.perf_counter()
                try:
                    self.store.read_state(chunk)
                except (DamagedStateError, DamagedCorpusError):
                    continue  # it is told when somebody asks for it
                found.append((self.store.layout.record_bytes, time.perf_counter() - started))
        return found


def injected(texts: Sequence[Text], way: str, rule: str) -> list[Text]:
    """The texts whose records are loaded: none to read them, the longest alone to read on from it, else all stored."""
    if way == "in-context":
        return []
    wanted = [longest_of(texts)] if rule == "replay" else list(texts)
    return [text for text in wanted if text.is_stored]


def longest_of(texts: Sequence[Text]) -> Text:
    """The text that `replay` starts from; of equals the first."""
    return max(texts, key=lambda text: text.found.chunk.num_tokens)
