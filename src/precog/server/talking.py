"""Something is said to a user's memory, and perhaps to a corpus: answered from both, and remembered."""

from contextlib import nullcontext
from dataclasses import dataclass
from threading import Event

from precog.engine import OnText, Speech
from precog.engine.composed import rules_of
from precog.engine.speech import unheard
from precog.errors import UsageError
from precog.records import ModelChoice
from precog.server.asking import searching
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.wording import called
from precog.session import Reply, Session, SessionOptions
from precog.session.reply import Start


@dataclass(frozen=True)
class Talked:
    """What came of it.

    Attributes:
        reply: whole.
        text: of it, up to the first of the stops.
        start: of the session.
    """

    reply: Reply
    text: str
    start: Start | None

    def to_json(self) -> dict[str, object]:
        """The reply, and how its session began."""
        return {**self.reply.to_json(), **({} if self.start is None else {"start": self.start.to_json()})}

    @property
    def saved_tokens(self) -> int:
        """Tokens of deposits and chunks whose states were injected."""
        members = [entry for entry in self.reply.evidence if entry.weight]
        said = sum(entry.memory.deposit.info.num_tokens for entry in members if entry.memory is not None)
        return said + sum(entry.corpus.chunk.num_tokens for entry in members if entry.corpus is not None)


def talk(
    services: Services,
    principal: Principal,
    model: ModelChoice,
    utterance: str,
    options: SessionOptions,
    *,
    cancelled: Event,
    corpus: str | None = None,
    stops: tuple[str, ...] = (),
    say: OnText = unheard,
) -> Talked:
    """Answers an utterance, and remembers it; counts what was saved.

    Args:
        services: of the server.
        principal: whose memory it is.
        model: for the thread that answers.
        utterance: what is said.
        options: how it is answered.
        cancelled: set when whoever asked has gone: it leaves the line of those who write.
        corpus: name of one that is searched along with the memory.
        stops: texts before which the answer ends.
        say: told the answer: a free one as it comes.

    Raises:
        CancelledError: whoever asked has gone.
        UsageError: this model's states cannot be composed so.
        MissingError: there is no such corpus.
        PrecogError: see `Session.say`.
    """
    found = nullcontext(None) if corpus is None else searching(services, principal, corpus)
    folder = services.tenant(principal).memory
    writes = options.is_remembered(utterance)
    speech = Speech(say, stops=stops)
    with (
        called(folder, "the memory"),
        services.writers.turn(folder, cancelled) if writes else nullcontext(),
        found as searcher,
        Session(folder, model=model, encoder=services.encoder, corpus=searcher, options=options) as session,
    ):
        rule, allowed = options.composing.rule, rules_of(session.backbone)
        if rule not in allowed:
            raise UsageError("this model's states do not allow that rule", given=rule, expected=", ".join(allowed))
        reply = session.say(utterance, on_text=speech.hear)
        start = session.start
    if not speech.text:
        speech.push(reply.text)
    speech.finish()
    talked = Talked(reply, speech.text, start)
    if not reply.abstained:
        services.metrics.answered(reply.timings.ttft, talked.saved_tokens)
    return talked
