import random

from precog.questions.spans import find_spans
from precog.questions.subjects import subject_of


def test_a_pronoun_is_what_the_sentence_before_speaks_of() -> None:
    def subject(sentence: str, before: str, title: str = "") -> set[str]:
        return {subject_of(sentence, before, find_spans(before), title, random.Random(seed)) for seed in range(20)}

    before = "Maria Weber wrote the novel of the year, which was sold in Geneva."
    assert subject("She died in 1851.", before) == {"Maria Weber", "the person who wrote the novel of the year"}
    assert subject("It is 34 m tall.", "The old mill was built in 1750.") == {"the old mill"}
    assert subject("They were sold.", "The old mill was built in 1750.") == {""}
    assert subject("He died.", "In 1910 Paul Miller met John Baker.") == {""}
    assert subject("He died.", "The war began.", "Paul Miller") == {"Paul Miller"}
    assert subject("He died.", "The war began.", "Second World War") == {""}
    assert subject("The mill fell.", before) == {""}
