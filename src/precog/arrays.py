"""The notation of the project: axis letters and the named array shapes built from them.

Letters
    B   batch rows
    T   tokens of a segment
    L   layers
    S   reals of recurrent state per layer
    K   coefficients of a head (length of the write vector β and the read vector r)
    P   channels of a head
    H   heads
    M   complex modes of a layer
    V   vocabulary
    E   width of a sentence embedding
"""

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int64
from torch import Tensor

Tokens = Int64[Tensor, "B T"]
Segments = Int[Tensor, "B T"]
Resets = Bool[Tensor, "B T"]
Logits = Float[Tensor, "B T V"]
LayerState = Float[Tensor, "B S"]
Key = Float32[np.ndarray, "E"]
Keys = Float32[np.ndarray, "n E"]
