"""Four questions about four paragraphs, and an encoder that needs no files: what most evaluations are tested with."""

import numpy as np

from precog.evaluate.squad_data import Question

PARAGRAPHS = (
    "Ada Lovelace was born in London in 1815 and wrote the first program.",
    "The Danube flows through Vienna, Budapest and Belgrade to the Black Sea.",
    "Mount Kenya is 5,199 metres high and is Africa's second highest mountain.",
    "The Treaty of Ghent ended the War of 1812 between two nations.",
)
QUESTIONS = [
    Question("a", "t", PARAGRAPHS[0], "Where was Ada Lovelace born?", ("London",)),
    Question("b", "t", PARAGRAPHS[1], "Which sea does the Danube reach?", ("the Black Sea", "Black Sea")),
    Question("c", "t", PARAGRAPHS[2], "How high is Mount Kenya?", ("5,199 metres",)),
    Question("d", "t", PARAGRAPHS[3], "Which treaty ended the War of 1812?", ("The Treaty of Ghent",)),
]


class Words:
    """Keys of hashed words."""

    dim, fingerprint, window_tokens, name = 64, "ef" * 32, 256, "words"

    def encode_query(self, text):
        key = np.full(self.dim, 1e-3, np.float32)
        for word in text.lower().split():
            key[sum(map(ord, word.strip(".,?"))) % self.dim] += 1
        return key / np.linalg.norm(key)

    def encode_passages(self, texts):
        return [self.encode_query(text)[None] for text in texts]
