import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import UsageError
from precog.questions.asking import questions_of
from precog.questions.found_by import KEY_KINDS, check_keys, key_text, words_text

TEXT = (
    "The bridge was opened on 19 March 1932 by Jack Lang. It is 134 m tall and carries 160,000 vehicles per day across "
    "the harbour of Sydney."
)


def test_keys_and_words_are_of_what_the_kind_says() -> None:
    titled = f"Harbour bridge\n{TEXT}"
    assert [key_text(kind, TEXT, title="Harbour bridge") for kind in KEY_KINDS] == [TEXT, titled, titled]
    assert words_text("text", TEXT, title="Harbour bridge") == TEXT
    assert words_text("title", TEXT, title="Harbour bridge") == titled
    asked = questions_of(TEXT, "Harbour bridge", 16)
    assert len(asked) >= 4
    assert words_text("questions", TEXT, title="Harbour bridge") == "\n".join([titled, *asked])
    assert words_text("questions", TEXT, title="").startswith(f"{TEXT}\n")


def test_headings_are_a_title_already() -> None:
    context = "Sydney > Bridges\nName | Height\n"
    assert key_text("title", TEXT, title="notes", context=context) == context + TEXT
    words = words_text("questions", TEXT, title="notes", context=context)
    assert words.startswith(context + TEXT)
    assert "notes" not in words


@given(st.sampled_from(KEY_KINDS), st.text(max_size=200), st.text(alphabet="ab \ud800", max_size=5))
@settings(max_examples=100)
def test_a_text_is_never_lost_and_always_gives_the_same(kind: str, text: str, title: str) -> None:
    assert key_text(kind, text, title=title).endswith(text)
    words = words_text(kind, text, title=title)
    assert words.startswith(key_text(kind, text, title=title))
    assert words == words_text(kind, text, title=title)


def test_another_kind_is_refused_in_one_line() -> None:
    check_keys(None)
    with pytest.raises(UsageError) as told:
        check_keys("answers")
    assert str(told.value) == "--keys: no such choice; given: answers; expected: text, title, questions"
