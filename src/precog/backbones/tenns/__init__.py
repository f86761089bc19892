"""TENNs-LLM (paper §3): configuration, network, checkpoints, and the backbone made of them."""
