"""What a question is, and what it must be before anything is looked for."""

import re

from precog.errors import InputError, UsageError

MOST_CHARS = 16_000
"""Of a question that programs ask: far more than anybody says."""


def check_question(question: str) -> None:
    """Refuses a question that asks nothing, or that no encoding can carry.

    Raises:
        UsageError: it is empty.
        InputError: it is not valid Unicode.
    """
    if not question.strip():
        raise UsageError("the question is empty", given="0 tokens", expected="a question")
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise InputError("the question is not valid Unicode", given=f"character {error.start}") from error


_VERB = r"(am|is|are|was|were|do|does|did|have|has|had|can|could|will|would|should|shall|may|might)"
_SOMEBODY = (
    r"(i|you|he|she|it|we|they|my|your|his|her|its|our|their|there|the|this|that|these|those|a|an|any|anyone|anybody)"
)
_ASKS = re.compile(
    rf"((who|whom|whose|what|when|where|why|how)(\s+{_VERB}\b|[’']s\b)|"
    rf"(what|which|whose|how)\s+\w+(\s+\w+)?\s+{_VERB}\s+{_SOMEBODY}\b|"
    rf"{_VERB}\s+{_SOMEBODY}\b|"
    r"(what|how)\s+about\b|"
    r"(please\s+)?(tell|remind|show)\s+me\b)",
    re.IGNORECASE,
)
# question words of other languages with a verb after them, or accents that only questions have
_ASKS_ELSEWHERE = re.compile(
    r"(¿|(wer|wen|wem|was|wann|wo|wohin|woher|warum|wieso|wie)\s+(ist|sind|war|waren|bin|bist|heißt|heißen|hieß|hat|hast|"
    r"haben|habe|hatte|kann|kannst|wird|macht|geht|kommt|wohnt|wohne|lebt|arbeitet|steht|liegt|gibt|soll|muss)\b|"
    r"wie\s+(viele?|alt|lange|oft|groß|weit|spät)\b|welche[rsmn]?\s+\w+\s+(ist|sind|war|hat|habe|hast)\b|"
    r"(ist|sind|hat|hast|habe|kann|kannst|weißt|war|gibt)\s+(du|ich|er|sie|es|wir|ihr|mein\w*|dein\w*|der|die|das)\b|"
    r"est-ce\b|qu['’]est-ce\b|où\b|(qui|quand|pourquoi|comment|combien)\s+(est|sont|était|a|as|ont|va|s['’]appelle|de)\b|"
    r"quel(le)?s?\s+(est|sont|était)\b|"
    r"(qué|quién|quiénes|cuándo|dónde|adónde|cuál|cuáles|cómo|cuánt[oa]s?|por\s+qué)\b|"
    r"(chi|che\s+cosa|cosa|quando|dove|perché|come|quale|quanto)\s+(è|sono|ha|hanno|era|si\s+chiama|abita|sta|va)\b|"
    r"(dov|com|cos|qual)['’ ]è\b|"
    r"(quem|o\s+que|quando|onde|por\s+que|como|qual|quais|quant[oa]s?)\s+(é|são|era|foi|está|tem|se\s+chama|fica|mora)\b)",
    re.IGNORECASE,
)
_FILLING = """
a about again alright all and bye cool course exactly fine for good goodbye great haha hello hey hi hm hmm i
interesting it k lol lot many much nice night no nope of oh ok okay perfect please problem really right see so sorry
sure thank thanks thx today understand very welcome well wow yeah yep yes you danke schön gut hallo ja nein bitte
genau tschüss super merci oui non salut bonjour beaucoup parfait gracias sí hola vale adiós muchas bueno grazie ciao
bene obrigado obrigada sim não olá tchau dank je wel nee
"""
_FILLERS = frozenset(_FILLING.split())
_MOST_FILLING = 5


_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”’)\]]*\s+|(?<=[？。！])")
_MOST_TOLD = 8


def is_mostly_question(text: str) -> bool:
    """Whether a turn ends by asking and tells next to nothing besides: "Congratulations! What breed is he?"

    At most eight words stand outside its questions; whoever tells more before he asks has said something.
    """
    sentences = [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]
    told = [sentence for sentence in sentences if not is_question(sentence)]
    return bool(sentences) and is_question(sentences[-1]) and sum(len(one.split()) for one in told) <= _MOST_TOLD


def is_question(text: str) -> bool:
    """Whether a text asks: by its mark, or, where that is left out, by how questions begin in English and a few more.

    "When I was in Rome it rained." tells something: a question word asks where a verb follows it at once.
    """
    said = text.strip()
    return (
        said.endswith(("?", "？", "吗", "呢"))
        or _ASKS.match(said) is not None
        or _ASKS_ELSEWHERE.match(said) is not None
    )


def is_filler(text: str) -> bool:
    """Whether a turn says nothing to keep, such as "Thanks" or "oui, merci beaucoup": at most five such words alone."""
    words = re.findall(r"\w+", text.casefold())
    return 0 < len(words) <= _MOST_FILLING and all(word in _FILLERS for word in words)
