"""PRECOG in ``llm``: ``llm -m precog "…" -o corpus DIR -o user U``.

The program loads every plug-in at every start, so that nothing of the model is imported here before it is asked.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import llm
from pydantic import Field

from precog.errors import PrecogError

if TYPE_CHECKING:
    from precog.plugins.knowledge import Knowledge


class Options(llm.Options):
    """What ``-o`` sets."""

    corpus: str | None = Field(default=None, description="Folder of a corpus; PRECOG_CORPUS by default")
    user: str | None = Field(default=None, description="Whose memory is asked, too; nothing is remembered")
    model: str | None = Field(default=None, description="Folder or name of a model; the corpus's own by default")
    free: bool = Field(default=False, description="Let the model say what it likes instead of quoting")
    top_k: int = Field(default=3, ge=1, le=100, description="Passages that are looked at")
    min_confidence: float | None = Field(default=None, ge=0, le=1, description="Below it there is no answer")
    always_answer: bool = Field(default=False, description="Answer whatever the confidence")


class Precog(llm.Model):
    """The model as this program knows it."""

    model_id = "precog"
    can_stream = True

    class Options(Options):
        """What ``-o`` sets."""

    def __init__(self) -> None:
        self._opened: dict[tuple[str | None, str | None, str | None], Knowledge] = {}

    def execute(
        self,
        prompt: llm.Prompt,
        stream: bool,
        response: llm.Response,
        conversation: llm.Conversation | None,
    ) -> Iterator[str]:
        """Answers a prompt; what was said before is read where the model is asked alone.

        Raises:
            llm.ModelError: it cannot be answered; one line says why.
        """
        from precog.plugins.answering import Asking, Told

        options: Any = prompt.options
        how = Asking(options.top_k, options.free, options.min_confidence, options.always_answer)
        try:
            knowledge = self._knowledge(options)
            for piece in knowledge.stream(prompt.prompt, how, before=_before(prompt, conversation)):
                if isinstance(piece, Told):
                    response.response_json = piece.details
                    response.set_resolved_model(piece.model)
                else:
                    yield piece
        except PrecogError as error:
            raise llm.ModelError(str(error)) from error

    def _knowledge(self, options: Any) -> "Knowledge":
        from precog.config import resolve
        from precog.plugins.knowledge import Knowledge

        corpus = resolve({"corpus": options.corpus}).corpus
        key = (corpus, options.user, options.model)
        if key not in self._opened:
            self._opened[key] = Knowledge(corpus, options.user, model=options.model)
        return self._opened[key]


@llm.hookimpl
def register_models(register: Callable[..., None]) -> None:
    """Tells the program of the model."""
    register(Precog())


def _before(prompt: llm.Prompt, conversation: llm.Conversation | None) -> list[str]:
    said = [prompt.system] if prompt.system else []
    for earlier in [] if conversation is None else conversation.responses:
        if isinstance(earlier, llm.Response):
            said += [earlier.prompt.prompt, earlier.text()]
    return said
