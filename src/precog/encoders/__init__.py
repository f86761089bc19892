"""From a sentence to its key or keys; the only room that imports onnxruntime and tokenizers."""

from precog.encoders.encoder import Encoder
from precog.encoders.loading import load_encoder
from precog.encoders.onnx_encoder import EncoderFiles, OnnxEncoder

__all__ = ["Encoder", "EncoderFiles", "OnnxEncoder", "load_encoder"]
