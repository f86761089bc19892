"""A memory of conversations: what was said, kept as states that are found by domain and by what they mean."""
