"""Made facts and questions about them: two readings that differ in one answer, and the segment that asks for it."""

import random
from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.engine.templates import question_segment

_FACTS = (
    ("The harbour master of {place} is {name}.", "Who is the harbour master of {place}?"),
    ("{name} built the lighthouse at {place}.", "Who built the lighthouse at {place}?"),
    ("The mayor of {place} is {name}.", "Who is the mayor of {place}?"),
    ("{name} won the boat race at {place}.", "Who won the boat race at {place}?"),
    ("The old mill at {place} belongs to {name}.", "Who owns the old mill at {place}?"),
    ("{name} teaches music in {place}.", "Who teaches music in {place}?"),
)
_PLACES = ("Marrow", "Denholt", "Ostwick", "Tarrin", "Velby", "Corran", "Hembley", "Saltry", "Birch Hollow", "Norfell")
_GIVEN = ("Helena", "Jonas", "Ada", "Tom", "Miriam", "Paul", "Ruth", "Sam", "Clara", "Victor", "Nora", "George")
_FAMILY = ("Brandt", "Whitlock", "Quill", "Reed", "Osten", "Kerrigan", "Calloway", "Ferrow", "Lind", "Marsh", "Tate")


@dataclass(frozen=True)
class Probe:
    """Two facts that contradict each other, and the question about them.

    Attributes:
        facts: ids of two openings of a reading, boundary first, that differ in a name.
        answers: the first token in which the names differ, of each.
        question: ids of the question's segment, boundary first.
    """

    facts: tuple[tuple[int, ...], tuple[int, ...]]
    answers: tuple[int, int]
    question: tuple[int, ...]


def make_probes(backbone: Backbone, count: int, seed: int) -> list[Probe]:
    """Probes drawn under a seed; the same ones on every machine, a longer list beginning with the shorter one."""
    tokenizer = backbone.tokenizer
    rng = random.Random(f"probes {seed}")
    probes = []
    for _ in range(count):
        statement, question = rng.choice(_FACTS)
        place = rng.choice(_PLACES)
        names = [f"{given} {rng.choice(_FAMILY)}" for given in rng.sample(_GIVEN, 2)]
        pairs = zip(*map(tokenizer.encode, names), strict=False)
        answers = next(pair for pair in pairs if pair[0] != pair[1])
        facts = [(*backbone.opening, *tokenizer.encode(statement.format(place=place, name=name))) for name in names]
        asked = question_segment(backbone, question.format(place=place))
        probes.append(Probe((facts[0], facts[1]), (answers[0], answers[1]), tuple(asked)))
    return probes
