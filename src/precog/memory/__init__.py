"""SMC: a memory that lasts, of conversations (paper §5)."""
