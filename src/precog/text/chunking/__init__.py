"""Documents ▸ chunks: contiguous, capped in tokens, covering the text."""
