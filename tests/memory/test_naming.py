"""A name tells a group from the others; a kind follows from the days."""

import datetime

from precog.memory.naming import kind_of, name_groups


def days(*numbers: int) -> list[datetime.date | None]:
    return [datetime.date(2025, 1, number) for number in numbers]


def test_names_are_made_of_what_tells_apart() -> None:
    boats = [
        "We went sailing on the harbour again",
        "The harbour was full of sails",
        "Sailing again, the harbour is calm",
    ]
    bread = ["I baked bread again", "The bread dough did not rise", "Again the dough sticks"]
    first, second = name_groups([boats, bread])
    assert first.split()[0] == "harbour"
    assert set(second.split()[:2]) == {"bread", "dough"}
    assert "again" not in f"{first} {second}".split()


def test_words_of_the_rest_name_nothing() -> None:
    group = ["engine harbour", "engine harbour", "engine harbour"]
    rest = ["engine trouble"] * 50
    assert name_groups([group], rest)[0].split()[0] == "harbour"


def test_no_two_names_are_equal_and_none_is_taken() -> None:
    same = ["alpha beta gamma delta"] * 5
    names = name_groups([same, same, same, same, same], taken=["alpha beta gamma"])
    assert len(set(names)) == 5
    assert "alpha beta gamma" not in names
    wordless = name_groups([["12 34", "!"], ["the", "of it"], [""]])
    assert len(set(wordless)) == 3
    assert all(name.startswith("group") for name in wordless)
    assert name_groups([["others", "others"]]) != ["others"]
    assert name_groups([]) == []


def test_texts_in_other_scripts_have_names() -> None:
    assert "гавань" in name_groups([["Старая гавань", "гавань ночью"], ["хлеб утром", "хлеб"]])[0].split()


def test_what_recurs_is_b_and_what_is_of_few_days_is_a() -> None:
    month = days(*range(1, 31))
    assert kind_of(days(1, 5, 9, 12, 15, 20, 22, 28), month) == "B"
    assert kind_of(days(3, 3, 3, 3), month) == "A"
    assert kind_of(days(3, 4, 5), month) == "A"  # three days of thirty
    assert kind_of(days(3, 4, 5), days(1, 2, 3, 4, 5)) == "B"
    assert kind_of(days(1, 2), days(1, 2)) == "A"  # two days are few of any number
    assert kind_of([None, None], month) == "B"
    assert kind_of([None, *days(3)], [*month, None]) == "A"
