"""What asks, what only asks, and what says nothing."""

import pytest

from precog.text.question import is_filler, is_mostly_question, is_question


@pytest.mark.parametrize(
    "text",
    [
        "Where do I live",
        "what about my job",
        "How about the car",
        "Wie heißt der Hund",
        "Wo wohnt Clara",
        "Hast du meine Schlüssel gesehen",
        "Welches Auto hast du",
        "Où habite Clara",
        "Qui est Robert",
        "Est-ce que Clara travaille",
        "¿Dónde vive Clara?",
        "dónde vive Clara",
        "Dove abita Clara",
        "Com'è la casa",
        "Onde fica a casa",
        "我的车在哪里呢",
        "你好吗",
    ],
)
def test_what_asks_without_a_mark(text: str) -> None:
    assert is_question(text)
    assert not is_filler(text)


@pytest.mark.parametrize(
    "text",
    [
        "When I was in Rome it rained.",
        "What I like is tea.",
        "Wie immer war es schön in Rom.",
        "Was ich mag, ist Tee.",
        "Quando ero a Roma pioveva.",
        "Como fruta todos los días.",
        "War and Peace is my favourite book.",
        "Thanks to Clara I have a job.",
        "My dog is called Ok.",
        "Ich wohne in Bern.",
        "I am fine.",
    ],
)
def test_what_tells_is_no_question_and_no_filler(text: str) -> None:
    assert not is_question(text)
    assert not is_mostly_question(text)
    assert not is_filler(text)


@pytest.mark.parametrize(
    "text", ["Thanks", "ok", "OK!", "Thank you so much", "ja, danke", "Oui, merci beaucoup.", "lol"]
)
def test_what_says_nothing(text: str) -> None:
    assert is_filler(text)


def test_who_tells_more_before_he_asks_has_said_something() -> None:
    assert is_mostly_question("Congratulations! What breed is Biscuit?")
    assert is_mostly_question("What breed is he? How old is he?")
    assert is_mostly_question("太好了。它几岁？")
    assert not is_mostly_question("What breed is he? We have a beagle.")
    assert not is_mostly_question("We went to the lake with the children last Sunday. How was your day?")
