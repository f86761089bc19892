"""How many tokens a second many answers have together, against one alone: the scheduler under free greedy streams."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from precog.backbones.protocol import Backbone
from precog.bench.ceilings import measure_ceilings
from precog.bench.harness import Side, interleave
from precog.bench.machine import Machine
from precog.bench.model import subject_of
from precog.bench.result import Ratio, Result, Value
from precog.bench.sizes import check_sizes
from precog.engine.decode import decode
from precog.serving import Scheduler

_PROMPTS = (
    "The history of the city begins with",
    "In 1932 the bridge over the river was",
    "Water is made of two gases, and",
    "She walked into the room and",
    "The first railway in the country",
    "Most of the islands are",
    "The museum was opened by",
    "During the winter the birds",
    "The language is spoken in",
    "A letter from the captain said that",
    "The university has a library of",
    "After the war the factory",
    "The mountain is the highest of",
    "His second novel was about",
    "The team played the final in",
    "Between the two towns there is",
)
_WANTED = {"cpu": 4.0}  # times the tokens a second of one stream that sixteen have
_WANTED_ELSEWHERE = 12.0
_MANY = 16


@dataclass(frozen=True)
class ServeSettings:
    """Sizes of the measurement.

    Attributes:
        streams: answers at once; 1 is what the others are compared with.
        tokens: of each answer, unless the model ends it.
        repeats: rounds that count.
        warm_up: rounds that do not; a GPU records a pass when it meets its kind for the third time.
    """

    streams: tuple[int, ...] = (1, 4, 16, 64)
    tokens: int = 64
    repeats: int = 3
    warm_up: int = 3

    def __post_init__(self) -> None:
        sizes = {"--streams": min(self.streams, default=0), "--tokens": self.tokens, "repeats": self.repeats}
        check_sizes("serve", sizes)


QUICK = ServeSettings(streams=(1, 4), tokens=4, repeats=1, warm_up=0)


def sized(*, quick: bool, streams: Sequence[int] | None, tokens: int | None) -> ServeSettings:
    """The sizes that were asked for; the usual ones where nothing was."""
    settings = QUICK if quick else ServeSettings()
    settings = settings if not streams else replace(settings, streams=tuple(streams))
    return settings if tokens is None else replace(settings, tokens=tokens)


def bench_serve(
    backbone: Backbone,
    settings: ServeSettings | None = None,
    *,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures from the moment that all ask until the last answer has ended, reading the questions included.

    Args:
        backbone: the model.
        settings: sizes.
        quick: small sizes of the machine's limits.
        say: told what is going on.
    """
    settings = settings or ServeSettings()
    machine = Machine.here()
    say("the machine's limits")
    ceilings = measure_ceilings(backbone.device, backbone.encoding_dtype, quick=quick)
    counts = sorted({1, *settings.streams})
    prompts = [[*backbone.opening, *backbone.tokenizer.encode(text)] for text in _PROMPTS[: max(counts)]]
    say("each answer alone")
    alone = [_answer(backbone, prompt, settings.tokens) for prompt in prompts]
    with Scheduler(backbone, max_streams=max(counts)) as scheduler:
        asking = _Asking(scheduler, prompts, settings.tokens)
        say("answers together")
        sides = [_loop(backbone, prompts[0], settings.tokens), *(asking.side(count) for count in counts)]
        rounds = interleave(sides, repeats=settings.repeats, warm_up=settings.warm_up)
        together = asking.together(len(prompts))
    one_sec = rounds["1"].median
    rows: list[Value] = [
        {
            "streams": count,
            "tokens_per_sec": 1 / rounds[f"{count}"].median,
            "over_one": rounds.ratio("1", f"{count}"),
            "token_of_each_sec": count * rounds[f"{count}"].median,
        }
        for count in counts
    ]
    wanted = _WANTED.get(backbone.device.type, _WANTED_ELSEWHERE)
    meaning = f"tokens a second of {_MANY} streams / of one"
    ratios = {"streams_16": Ratio(rounds.ratio("1", f"{_MANY}"), wanted, False, meaning)} if _MANY in counts else {}
    return Result(
        name="serve",
        values={
            "serve": rows,
            "loop_tokens_per_sec": 1 / rounds["loop"].median,
            "scheduler_over_loop": rounds["loop"].median / one_sec,
            "same_answers": sum(a == b for a, b in zip(alone, together, strict=True)) / len(alone),
            "same_tokens": _same_tokens(alone, together),
            "tokens_of_answers": sum(map(len, alone)),
        },
        ratios=ratios,
        ceiling=ceilings.to_json(),
        machine=machine,
        subject=subject_of(backbone),
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=(
            "free greedy answers, questions read included; loop: one answer without a scheduler",
            f"same_answers: of {len(alone)} at once, those whose tokens are those of the loop, alone; same_tokens: the "
            "share of tokens before the first that differs",
        ),
    )


def _answer(backbone: Backbone, prompt: Sequence[int], tokens: int) -> list[int]:
    stream = decode(backbone, None, prompt, max_tokens=tokens, whole_sentences=False)
    return [token.token_id for token in stream]


def _same_tokens(alone: Sequence[Sequence[int]], together: Sequence[Sequence[int]]) -> float:
    same = 0
    for one, other in zip(alone, together, strict=True):
        pairs = enumerate(zip(one, other, strict=False))
        same += next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
    return same / sum(map(len, alone))


def _loop(backbone: Backbone, prompt: Sequence[int], tokens: int) -> Side:
    def side(_: int) -> dict[str, float]:
        begun = time.perf_counter()
        said = _answer(backbone, prompt, tokens)
        return {"loop": (time.perf_counter() - begun) / len(said)}

    return side


@dataclass(frozen=True)
class _Asking:
    """Threads that ask, each as one user.

    Attributes:
        scheduler: of the model.
        prompts: what they ask, in turn.
        tokens: of an answer.
    """

    scheduler: Scheduler
    prompts: Sequence[Sequence[int]]
    tokens: int

    def together(self, count: int) -> list[list[int]]:
        """Answers to the first prompts, at once."""
        answers: dict[int, list[int]] = {}

        def ask(number: int) -> None:
            share = self.scheduler.share(f"user {number}", threading.Event())
            answers[number] = _answer(share, self.prompts[number % len(self.prompts)], self.tokens)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [answers[number] for number in range(count)]

    def side(self, count: int) -> Side:
        """Seconds a token of so many answers together."""

        def side(_: int) -> dict[str, float]:
            begun = time.perf_counter()
            answers = self.together(count)
            return {f"{count}": (time.perf_counter() - begun) / sum(map(len, answers))}

        return side
