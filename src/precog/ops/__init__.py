"""The gated diagonal recurrence and nothing else: loop reference, parallel scans, FFT for the LTI mode.

Every fast path stands beside a loop that says the same thing one token at a time, and is tested against it in
values and gradients. These functions know tensors; they know nothing of models, tokens or files.
"""

from precog.ops.channel import channel_loop, channel_scan
from precog.ops.conv import segment_conv, segment_conv_loop
from precog.ops.lti import lti_fft
from precog.ops.outer import chunked_outer_scan, outer_scan
from precog.ops.reference import diagonal_loop, diagonal_step, outer_loop, outer_step, selective_loop
from precog.ops.scan import diagonal_scan
from precog.ops.selective import selective_scan

__all__ = [
    "channel_loop",
    "channel_scan",
    "chunked_outer_scan",
    "diagonal_loop",
    "diagonal_scan",
    "diagonal_step",
    "lti_fft",
    "outer_loop",
    "outer_scan",
    "outer_step",
    "segment_conv",
    "segment_conv_loop",
    "selective_loop",
    "selective_scan",
]
