"""States of another model: how the two are told apart, and what to do."""

from precog.errors import ForeignStateError


def titled(name: str, fingerprint: str) -> str:
    """A model or an encoder in an error: its name where it is known, and enough of its fingerprint to tell it."""
    short = f"fingerprint {fingerprint[:12]}"
    return f"{name} ({short})" if name else short


def foreign(given: str, expected: str, name: str = "") -> ForeignStateError:
    """The error for a state of another model, with the way out.

    Args:
        given: fingerprint of the state.
        expected: fingerprint of the model that was to use it.
        name: of that model.
    """
    return ForeignStateError(
        "this state was made by another model, tokenizer, config or template",
        given=titled("", given),
        expected=titled(name, expected),
        hint="use the model that made it, or read the text again: precog reindex --corpus DIR --model DIR",
    )
