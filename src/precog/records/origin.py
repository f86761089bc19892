"""What made the states and keys of a folder, compared with what is to use them."""

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.errors import EncoderError, ForeignStateError
from precog.state import titled


def check_backbone(what: str, made_by: bytes, name: str, backbone: Backbone, hint: str) -> None:
    """Compares a model with the one that made the states.

    Args:
        what: "corpus" or "memory".
        made_by: fingerprint that the folder keeps.
        name: of the model that made it.
        backbone: the model that is to use it.
        hint: what to do where they differ.

    Raises:
        ForeignStateError: it is another model; the error names both.
    """
    if made_by.hex() != backbone.fingerprint:
        raise ForeignStateError(
            f"this {what} was made by another model, tokenizer, config or template",
            given=titled(backbone.card.name, backbone.fingerprint),
            expected=titled(name, made_by.hex()),
            hint=hint,
        )


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
        raise EncoderError(
            f"the keys of this {what} were made by another sentence encoder",
            given=titled(encoder.name, encoder.fingerprint),
            expected=titled(name or "the default encoder", made_by),
            hint=hint,
        )
