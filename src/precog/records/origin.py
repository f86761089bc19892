"""What made the keys of a folder, compared with what is to use them."""

from precog.encoders import Encoder
from precog.errors import EncoderError


def check_encoder(what: str, made_by: str, name: str, encoder: Encoder, hint: str) -> None:
    """Compares an encoder with the one that made the keys.

    Args:
        what: "corpus" or "memory".
        made_by: fingerprint that the folder keeps.
        name: of the encoder that made it; "" for the default one.
        encoder: that is to use them.
        hint: what to do where they differ.

    Raises:
        EncoderError: it is another encoder; the error names both.
    """
    if encoder.fingerprint != made_by:
        from precog.state import titled  # torch comes with it

        raise EncoderError(
            f"the keys of this {what} were made by another sentence encoder",
            given=titled(encoder.name, encoder.fingerprint),
            expected=titled(name or "the default encoder", made_by),
            hint=hint,
        )
