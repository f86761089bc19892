"""The tools that agents get: what each takes, what it gives back, and how it is done with a user's knowledge."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from precog.config import Retrieval
from precog.errors import InputError
from precog.memory.moment import parse_time
from precog.memory.selection import Selection
from precog.memory.utterance import Utterance, has_half_pairs
from precog.text.question import MOST_CHARS

if TYPE_CHECKING:
    from precog.plugins.knowledge import Knowledge

MOST_TEXT_CHARS = 200_000
_MAX_ID = (1 << 63) - 1


def _sound(text: str) -> str:
    if "\0" in text or has_half_pairs(text):
        raise ValueError("no text has a NUL or half a surrogate pair in it")
    return text


def _asks(text: str) -> str:
    if not text.strip():
        raise ValueError("it says nothing")
    return _sound(text)


Words = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(_asks)]
Question = Annotated[str, Field(min_length=1, max_length=MOST_CHARS), AfterValidator(_asks)]
Count = Annotated[int, Field(ge=1, le=100)]


class Input(BaseModel):
    """Arguments of a tool; others are refused."""

    model_config = ConfigDict(extra="forbid")


class Ask(Input):
    """A question, and how it is answered."""

    question: Question = Field(description="The question, in words.")
    top_k: Count = Field(3, description="Passages that are looked at.")
    free: bool = Field(False, description="Let the model use words of its own instead of quoting what was found.")
    min_confidence: float | None = Field(
        None, ge=0, le=1, description="Below it there is no answer; the model's own threshold by default."
    )
    always_answer: bool = Field(False, description="Answer whatever the confidence.")


class Search(Input):
    """What is looked for in the documents."""

    query: Question = Field(description="What to look for, in words.")
    top_k: Count = Field(5, description="Most passages.")
    retrieval: Retrieval = Field("hybrid", description="By meaning and words, or one of them.")


class Recall(Input):
    """What is looked for in the memory."""

    query: Question = Field(description="What to look for, in words.")
    top_k: Count = Field(5, description="Most deposits.")


class List(Input):
    """Which deposits are listed."""

    limit: int = Field(20, ge=1, le=1_000, description="Most deposits, the newest ones.")
    speaker: Words | None = Field(None, description="Only what this speaker said.")
    before: int | None = Field(None, ge=1, le=_MAX_ID, description="Only deposits of a smaller number.")


class Remember(Input):
    """Words that were said."""

    text: Annotated[str, Field(min_length=1, max_length=MOST_TEXT_CHARS), AfterValidator(_asks)] = Field(
        description="The words to keep, as they were said."
    )
    time: Words | None = Field(None, description="When: ISO 8601; now by default.")
    speaker: Words | None = Field(None, description="Who said it.")
    place: Words | None = Field(None, description="Where.")
    importance: float = Field(
        0.0, ge=-1e9, le=1e9, description="Of two stored states the less important expires first; texts stay."
    )


class Forget(Input):
    """Which deposits go; conditions are joined by *and*."""

    model_config = ConfigDict(extra="forbid", strict=True)  # nothing is destroyed for what is taken for a number

    ids: list[Annotated[int, Field(ge=1, le=_MAX_ID)]] = Field(
        default_factory=list, max_length=10_000, description="Numbers of deposits, as recall and list tell them."
    )
    query: Question | None = Field(None, description="What says this, in these or other words.")
    top_k: Count = Field(1, description="How many deposits the query means at most.")
    before: Words | None = Field(None, description="Said before this time.")
    after: Words | None = Field(None, description="Said at this time or later.")
    speaker: Words | None = Field(None, description="Said by.")
    all: bool = Field(False, description="Every deposit; alone.")

    @property
    def selection(self) -> Selection:
        """The same for the memory.

        Raises:
            UsageError: it means nothing, or contradicts itself.
            InputError: a time cannot be read.
        """
        return Selection(
            ids=tuple(self.ids),
            query=self.query,
            top_k=self.top_k,
            after=None if self.after is None else parse_time(self.after),
            before=None if self.before is None else parse_time(self.before),
            speaker=self.speaker,
            everything=self.all,
        )


I = TypeVar("I", bound=Input)
Result = tuple[dict[str, Any], str]
"""What programs read, and what people and models read."""


@dataclass(frozen=True)
class Tool(Generic[I]):
    """One tool.

    Attributes:
        name: as it is called.
        title: for people.
        description: for models.
        input: its arguments.
        output: schema of the structured result: names of what is always there ▸ type.
        work: does it; when the event is set, what only reads stops early, and a change that has begun is finished.
        is_read_only: whether nothing is changed by it.
        is_destructive: whether something is lost by it.
    """

    name: str
    title: str
    description: str
    input: type[I]
    output: Mapping[str, str]
    work: Callable[["Knowledge", I, Event], Result]
    is_read_only: bool = True
    is_destructive: bool = False

    @property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the result; of an error as well."""
        properties = {name: {"type": kind.split("|")} for name, kind in self.output.items()}
        error = {"type": "object", "required": ["code", "message"]}
        whole = [{"required": sorted(self.output)}, {"required": ["error"]}]
        return {"type": "object", "properties": {**properties, "error": error}, "anyOf": whole}

    def arguments(self, given: Mapping[str, Any]) -> I:
        """Arguments, checked.

        Raises:
            InputError: some are missing, unknown or out of range; what they were is not repeated.
        """
        try:
            return self.input.model_validate(given)
        except ValidationError as error:
            wrong = "; ".join(map(_wrong, error.errors()[:3]))
            raise InputError(f"the arguments of {self.name} are not as they should be: {wrong}") from None

    def __call__(self, knowledge: "Knowledge", given: Mapping[str, Any], stopped: Event) -> Result:
        """The result.

        Raises:
            PrecogError: it cannot be done; the error says why.
        """
        return self.work(knowledge, self.arguments(given), stopped)


def _wrong(found: Mapping[str, Any]) -> str:
    where = ".".join(map(str, found["loc"])) or "arguments"
    return f"{where}: {str(found['msg']).removeprefix('Value error, ')}"


def _ask(knowledge: "Knowledge", asked: Ask, stopped: Event) -> Result:
    from precog.plugins.answering import Asking

    how = Asking(asked.top_k, asked.free, asked.min_confidence, asked.always_answer)
    told = knowledge.ask(asked.question, how, stopped=stopped)
    cited = [f"[{number}] {_place(passage.metadata)}" for number, passage in enumerate(told.passages, 1)]
    said = _quoted(told.text) if told.passages else told.text
    return {"question": asked.question, "model": told.model, **told.details}, "\n".join([said, *cited])


def _search(knowledge: "Knowledge", asked: Search, stopped: Event) -> Result:
    hits = knowledge.search(asked.query, asked.top_k, retrieval=asked.retrieval, stopped=stopped)
    lines = [f"[{number}] {_place(hit)}\n{_quoted(str(hit['text']))}" for number, hit in enumerate(hits, 1)]
    return {"hits": hits}, "\n\n".join(lines) or "nothing was found"


def _recall(knowledge: "Knowledge", asked: Recall, stopped: Event) -> Result:
    found = knowledge.recall(asked.query, asked.top_k, stopped=stopped)
    lines = [_line(entry.to_json()) for entry in found.evidence]
    return found.to_json(), "\n".join([*lines, *found.damage.lines]) or "nothing is remembered that holds"


def _list(knowledge: "Knowledge", asked: List, stopped: Event) -> Result:
    found = knowledge.listed(asked.limit, speaker=asked.speaker, before=asked.before)
    told = found.to_json()
    lines = [_line({"id": deposit.id, **vars_of(deposit.info)}) for deposit in found.deposits]
    more = [f"{len(lines)} of {found.total}; older ones come before {found.deposits[0].id}"] if found.has_older else []
    return told, "\n".join([*lines, *more, *found.damage.lines]) or "nothing that is remembered fits"


def _remember(knowledge: "Knowledge", said: Remember, stopped: Event) -> Result:
    at = datetime.datetime.now().astimezone() if said.time is None else parse_time(said.time)
    turn = Utterance(said.text, at.replace(microsecond=0), said.speaker, said.place)
    done = knowledge.remember([turn], importance=said.importance, stopped=stopped)
    numbers = ", ".join(str(number) for number in dict.fromkeys(done["ids"]))  # type: ignore[call-overload]  # a list
    return done, f"remembered as deposit {numbers}"


def _forget(knowledge: "Knowledge", asked: Forget, stopped: Event) -> Result:
    done = knowledge.forget(asked.selection, proof=True, stopped=stopped)
    numbers = ", ".join(map(str, done.ids)) or "none"
    lines = [
        f"forgotten: deposit {numbers}",
        f"searched {done.files_searched} files ({done.bytes_searched} bytes) for {done.searched_for} pieces of it: "
        f"{done.hits} found",
        *done.damage.lines,
    ]
    if done.said_again:
        lines.append(f"others say some of the same: deposits {', '.join(map(str, done.said_again))}")
    if done.not_searched:
        lines.append(f"not searched: {'; '.join(done.not_searched)}")
    return {**done.to_json(), "complete": done.is_complete}, "\n".join(lines)


def vars_of(info: Any) -> dict[str, Any]:
    """What is told of a deposit in one line."""
    time = None if info.time is None else info.time.isoformat()
    return {"text": info.text, "time": time, "speaker": info.speaker, "place": info.place}


def _line(said: Mapping[str, Any]) -> str:
    who = ", ".join(_in_a_line(said[name]) for name in ("time", "speaker", "place") if said.get(name))
    text = _quoted(str(said["text"]))
    return f"{said['id']} ({who}):\n{text}" if who else f"{said['id']}:\n{text}"


def _place(found: Mapping[str, Any]) -> str:
    if "document" not in found:
        who = ", ".join(_in_a_line(found[name]) for name in ("time", "speaker") if found.get(name))
        return f"memory {found['id']}" + (f" ({who})" if who else "")
    page = f", page {found['page']}" if found.get("page") is not None else ""
    return f"{_in_a_line(found['document'])}{page}"


def _quoted(text: str) -> str:
    """What a document or somebody says, in lines that cannot be taken for ours."""
    return "\n".join(f"> {line}" for line in text.splitlines() or [""])


def _in_a_line(name: object) -> str:
    return " ".join(str(name).split())


ASK = Tool(
    "ask",
    "Ask",
    "Answers a question from what the user's memory and documents say, with the passages it stands on. "
    "The answer is quoted from them unless `free` is set; where nothing answers it, it says so (`abstained`).",
    Ask,
    {"question": "string", "text": "string", "abstained": "boolean", "confidence": "number|null"},
    _ask,
)
SEARCH = Tool(
    "search",
    "Search documents",
    "Finds passages of the user's documents by meaning and by words; no model is asked.",
    Search,
    {"hits": "array"},
    _search,
)
RECALL = Tool(
    "recall",
    "Recall",
    "Finds what was said before that bears on a query, by meaning and by words; no model is asked.",
    Recall,
    {"evidence": "array"},
    _recall,
)
LIST = Tool(
    "list",
    "List memory",
    "Lists what is remembered, the newest last, with the numbers that `forget` takes.",
    List,
    {"deposits": "array", "total": "integer"},
    _list,
)
REMEMBER = Tool(
    "remember",
    "Remember",
    "Keeps what was said in the user's memory for good; the same said at the same time is kept once.",
    Remember,
    {"ids": "array", "duplicates": "integer"},
    _remember,
    is_read_only=False,
)
FORGET = Tool(
    "forget",
    "Forget",
    "Removes deposits and all that was made of them, and proves it by a search of every byte. It cannot be undone.",
    Forget,
    {"forgotten": "array", "hits": "integer", "complete": "boolean"},
    _forget,
    is_read_only=False,
    is_destructive=True,
)
READING: tuple[Tool[Any], ...] = (ASK, SEARCH, RECALL, LIST)
WRITING: tuple[Tool[Any], ...] = (REMEMBER, FORGET)


def tools_for(*, has_corpus: bool, allow_write: bool) -> dict[str, Tool[Any]]:
    """The tools that somebody gets, by name."""
    chosen = [*READING, *(WRITING if allow_write else ())]
    return {tool.name: tool for tool in chosen if has_corpus or tool is not SEARCH}
