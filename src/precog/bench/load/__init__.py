"""Many clients at a server at once: what they are answered, how soon, and whether what was acknowledged is there."""
