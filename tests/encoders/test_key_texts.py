import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.encoders.key_texts import KEY_KINDS, MAX_QUESTIONS, check_keys, encode_each, key_texts
from precog.errors import UsageError

TEXT = (
    "The bridge was opened on 19 March 1932 by Jack Lang. It is 134 m tall and carries 160,000 vehicles per day across "
    "the harbour of Sydney."
)


class Lengths:
    """Two keys for a text of more than 60 characters, else one."""

    dim, fingerprint, window_tokens, name = 2, "ab" * 32, 60, "lengths"

    def encode_query(self, text: str) -> np.ndarray:
        return np.array([len(text), 1], np.float32)

    def encode_passages(self, texts: list[str]) -> list[np.ndarray]:
        return [np.repeat(self.encode_query(text)[None], 1 + (len(text) > 60), axis=0) for text in texts]


def test_the_title_stands_before_a_text_without_context_and_before_its_questions() -> None:
    assert key_texts("text", TEXT, title="Harbour bridge") == (TEXT,)
    assert key_texts("title", TEXT, title="Harbour bridge") == (f"Harbour bridge\n{TEXT}",)
    own, *asked = key_texts("questions", TEXT, title="Harbour bridge")
    assert own == f"Harbour bridge\n{TEXT}"
    assert len(asked) >= 4
    assert all(question.startswith("Harbour bridge: ") for question in asked)
    assert key_texts("questions", TEXT, title="")[0] == TEXT
    assert not any(": " in question for question in key_texts("questions", TEXT, title="")[1:])


def test_headings_are_a_title_already() -> None:
    context = "Sydney > Bridges\nName | Height\n"
    assert key_texts("title", TEXT, title="notes", context=context) == (context + TEXT,)
    own, *asked = key_texts("questions", TEXT, title="notes", context=context)
    assert own == context + TEXT
    assert asked
    assert all(question.startswith("Sydney > Bridges: ") for question in asked)


@given(st.sampled_from(KEY_KINDS), st.text(max_size=200), st.text(alphabet="ab \ud800", max_size=5))
@settings(max_examples=100)
def test_a_text_is_never_lost_and_always_gives_the_same(kind: str, text: str, title: str) -> None:
    made = key_texts(kind, text, title=title)
    assert made == key_texts(kind, text, title=title)
    assert made[0].endswith(text)
    assert len(made) <= 1 + MAX_QUESTIONS


def test_keys_are_those_of_all_texts_of_a_passage() -> None:
    passages = [("a",), ("bb", "c" * 70, "ddd"), ("e" * 80,)]
    keys = encode_each(Lengths(), passages)
    assert [rows[:, 0].tolist() for rows in keys] == [[1], [2, 70, 70, 3], [80, 80]]
    assert encode_each(Lengths(), []) == []


def test_another_kind_is_refused_in_one_line() -> None:
    check_keys(None)
    with pytest.raises(UsageError) as told:
        check_keys("answers")
    assert str(told.value) == "--keys: no such choice; given: answers; expected: text, title, questions"
