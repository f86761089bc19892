"""The model speaks freely: tokens ▸ text as it comes, until it ends, comes to a stop, or is cut off."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.engine.modes import FreeSettings, OnToken, decode_freely
from precog.engine.speech import OnText, Speech, unheard
from precog.state import State
from precog.text.tokenizer import StreamDecoder, Tokenizer


@dataclass(frozen=True)
class Spoken:
    """What the model said freely.

    Attributes:
        text: it.
        num_tokens: of it, those of a stop included.
        was_cut: whether it would have gone on.
        first_token: ``time.perf_counter()`` when its first token came, or that there was none.
    """

    text: str
    num_tokens: int
    was_cut: bool
    first_token: float = 0.0


def speak(
    backbone: Backbone,
    state: State | None,
    token_ids: Sequence[int],
    settings: FreeSettings,
    say: OnText = unheard,
    *,
    stops: tuple[str, ...] = (),
    goes_on: bool = False,
) -> Spoken:
    """Lets the model speak until it ends, comes to a stop, or is cut off.

    Args:
        backbone: the model.
        state: what it has read; nothing when None.
        token_ids: of the segment that it goes on with.
        settings: most tokens, sampling, and whether a sentence ends it.
        say: told the text as it comes.
        stops: texts before which it ends.
        goes_on: whether the text goes on with that of the segment, white space included; else it is an answer.

    Raises:
        UsageError, BoundaryError, ForeignStateError, InputError: as `decode`.
    """
    decoder = StreamDecoder(backbone.tokenizer, opens_segment=not goes_on)
    speech = Speech(say, stops=stops, strips=not goes_on)
    num_tokens, first_token = 0, 0.0
    for token in decode_freely(backbone, state, token_ids, settings):
        num_tokens += 1
        first_token = first_token or time.perf_counter()
        if speech.push(decoder.push(token.token_id)):
            break
    speech.push(decoder.finish())
    speech.finish()
    was_cut = num_tokens >= settings.max_tokens and not speech.has_stopped
    return Spoken(speech.text, num_tokens, was_cut, first_token or time.perf_counter())


@contextmanager
def telling(tokenizer: Tokenizer, say: OnText | None) -> Iterator[OnToken | None]:
    """What takes the tokens of an answer while the block runs, and tells its text; nothing where nobody listens.

    Args:
        tokenizer: whose tokens they are.
        say: told the text as it comes; together the pieces are the answer without white space around it.
    """
    if say is None:
        yield None
        return
    decoder, speech = StreamDecoder(tokenizer), Speech(say)
    yield lambda token_id: speech.hear(decoder.push(token_id))
    speech.push(decoder.finish())
    speech.finish()
