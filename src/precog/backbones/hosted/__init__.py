"""Models that other libraries run: what they bring, and what makes a backbone of it."""
