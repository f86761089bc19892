"""Every error PRECOG raises on purpose.

All derive from one root:

    PrecogError
    ├── UsageError            the command line or the configuration contradicts itself        (exit 2)
    ├── InputError            what the user gave cannot be read or used
    │   └── DocumentError     one document yields nothing: scanned, encrypted, truncated, binary
    ├── ModelError            a checkpoint is missing, damaged or of an unknown shape
    ├── StateError            a state may not be used this way
    │   ├── ForeignStateError   made by another model, tokenizer, config or template
    │   ├── DamagedStateError   its bytes are not those that were written
    │   └── BoundaryError       a boundary state continued by something else than a new segment
    ├── CorpusError           a corpus folder is missing, foreign, or of another version
    │   ├── BusyError           another process is writing
    │   └── DamagedCorpusError  the catalogue or a segment is damaged
    ├── EncoderError          a sentence encoder is missing, or not the corpus's own
    ├── StorageError          the disk is full or refuses to be written
    ├── TrainingError         data, loss or a resume that cannot be trusted
    ├── AccessError           whoever asks has no key, or may not do this with it
    ├── MissingError          there is nothing of this name, or not for whoever asks
    ├── LimitError            too large, too many, or too much at once
    └── CancelledError        whoever asked has gone
"""


class PrecogError(Exception):
    """One line in four parts: what failed, what was given, what was expected, what to do.

    The command line prints ``str(error)`` alone; ``--json`` and the server use the parts.
    ``given`` is what somebody asked for or handed in; what happened, or what a file turned out to be, is the message's.
    """

    code: str = "error"
    exit_status: int = 1

    def __init__(self, message: str, *, given: object = None, expected: object = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.given = None if given is None else str(given)
        self.expected = None if expected is None else str(expected)
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.given is not None:
            parts.append(f"given: {self.given}")
        if self.expected is not None:
            parts.append(f"expected: {self.expected}")
        if self.hint is not None:
            parts.append(self.hint)
        return "; ".join(parts)

    def to_json(self) -> dict[str, str | None]:
        """The error object of every ``--json`` command."""
        return {
            "code": self.code,
            "message": self.message,
            "given": self.given,
            "expected": self.expected,
            "hint": self.hint,
        }


class UsageError(PrecogError):
    """The command line or the configuration contradicts itself."""

    code = "usage"
    exit_status = 2


class InputError(PrecogError):
    """What the user gave cannot be read or used."""

    code = "input"


class DocumentError(InputError):
    """One document yields nothing: scanned, encrypted, truncated, binary."""

    code = "document"


class ModelError(PrecogError):
    """A checkpoint is missing, damaged or of an unknown shape."""

    code = "model"


class StateError(PrecogError):
    """A state may not be used this way."""

    code = "state"


class ForeignStateError(StateError):
    """The state was made by another model, tokenizer, config or template."""

    code = "state.foreign"


class DamagedStateError(StateError):
    """The bytes of a state are not those that were written."""

    code = "state.damaged"


class BoundaryError(StateError):
    """A boundary state was continued by something else than a new segment."""

    code = "state.boundary"


class CorpusError(PrecogError):
    """A corpus folder is missing, foreign, or of another version."""

    code = "corpus"


class BusyError(CorpusError):
    """Another process is writing to the corpus."""

    code = "corpus.busy"


class DamagedCorpusError(CorpusError):
    """The catalogue or a segment of a corpus is damaged."""

    code = "corpus.damaged"


class EncoderError(PrecogError):
    """A sentence encoder is missing, or is not the corpus's own."""

    code = "encoder"


class StorageError(PrecogError):
    """The disk is full or refuses to be written."""

    code = "storage"


class TrainingError(PrecogError):
    """Data, a loss or a resume that cannot be trusted."""

    code = "training"


class AccessError(PrecogError):
    """Whoever asks has no key, or may not do this with it.

    Attributes:
        is_known: whether the key is one; then it is the act that is refused.
    """

    code = "access"

    def __init__(self, message: str, *, is_known: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.is_known = is_known


class MissingError(PrecogError):
    """There is nothing of this name, or not for whoever asks: the answer is the same."""

    code = "missing"


class LimitError(PrecogError):
    """Something is too large, or there is too much of it at once.

    Attributes:
        retry_after_sec: when to try again; None where it would be refused then, too.
    """

    code = "limit"

    def __init__(
        self,
        message: str,
        *,
        given: object = None,
        expected: object = None,
        hint: str | None = None,
        retry_after_sec: float | None = None,
    ) -> None:
        super().__init__(message, given=given, expected=expected, hint=hint)
        self.retry_after_sec = retry_after_sec


class CancelledError(PrecogError):
    """Whoever asked has gone; what was begun for them is dropped."""

    code = "cancelled"
