"""Questions made from a text by rules: spans to ask for, clozes, wh-questions, and other words for them."""
