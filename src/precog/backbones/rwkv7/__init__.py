"""RWKV-7 through the `rwkv` package: its files, its vocabulary, and an exact pass from any state."""
