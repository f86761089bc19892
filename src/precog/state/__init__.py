"""States: frozen data that a model produced and that knows nothing of the model."""

from precog.state.batch import StateBatch
from precog.state.blend import blend, check_averages
from precog.state.codec import CODECS, Codec, Float16Codec, Float32Codec, IntegerCodec, codec_named
from precog.state.compose import (
    RENORMS,
    RULES,
    Composition,
    compose,
    reading_order,
    softmax_weights,
    with_baseline,
)
from precog.state.decay import Decay
from precog.state.foreign import foreign, titled
from precog.state.layers import LayerSubset
from precog.state.spec import Scaled, StateSpec
from precog.state.state import State

__all__ = [
    "CODECS",
    "RENORMS",
    "RULES",
    "Codec",
    "Composition",
    "Decay",
    "Float16Codec",
    "Float32Codec",
    "IntegerCodec",
    "LayerSubset",
    "Scaled",
    "State",
    "StateBatch",
    "StateSpec",
    "blend",
    "check_averages",
    "codec_named",
    "compose",
    "foreign",
    "reading_order",
    "softmax_weights",
    "titled",
    "with_baseline",
]
