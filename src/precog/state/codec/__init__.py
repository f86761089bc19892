"""States to bytes of a known number and back, at 32, 16, 8 or 4 bits a real; nothing is ever clipped."""

from precog.errors import UsageError
from precog.state.codec.base import Buffer, Codec
from precog.state.codec.floats import FLOAT16_MAX, Float16Codec, Float32Codec
from precog.state.codec.integers import IntegerCodec

CODECS: dict[str, Codec] = {
    codec.name: codec
    for codec in (
        Float32Codec(),
        Float16Codec(),
        IntegerCodec("int8", bits=8, rotates=False),
        IntegerCodec("int8-rot", bits=8, rotates=True),
        IntegerCodec("int4", bits=4, rotates=False),
        IntegerCodec("int4-rot", bits=4, rotates=True),
    )
}

__all__ = [
    "CODECS",
    "FLOAT16_MAX",
    "Buffer",
    "Codec",
    "Float16Codec",
    "Float32Codec",
    "IntegerCodec",
    "codec_named",
]


def codec_named(name: str) -> Codec:
    """A codec by name.

    Raises:
        UsageError: there is no such codec.
    """
    if name not in CODECS:
        raise UsageError("no such state codec", given=name, expected=", ".join(CODECS))
    return CODECS[name]
