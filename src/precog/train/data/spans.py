"""Finding typed answer spans in English prose by rules: names, dates, numbers, quotations, noun phrases.

A rough finder on purpose: it is fast, needs no model, and makes the questions that training reads from. It does not
know grammar; what it calls a noun phrase is a run of words between function words.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

__all__ = ["FUNCTION_WORDS", "Span", "SpanType", "find_spans", "split_sentences"]


class SpanType(StrEnum):
    """What an answer is."""

    PERSON = "person"
    PLACE = "place"
    NAME = "name"
    DATE = "date"
    YEAR = "year"
    NUMBER = "number"
    MEASURE = "measure"
    MONEY = "money"
    PERCENT = "percent"
    QUOTE = "quote"
    PHRASE = "phrase"
    REASON = "reason"


class Span(NamedTuple):
    """Characters ``start:stop`` of a text and their type."""

    start: int
    stop: int
    type: SpanType


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _words(
    "a an the and or but nor so yet if then than as at by for from in into of off on onto out over to up with within "
    "without under upon about above across after against along among around before behind below beneath beside "
    "between beyond during except inside near outside per since through throughout till toward towards until via "
    "i you he she it we they me him her us them my your his its our their mine who whom whose which what when where "
    "why how that this these those there here am is are was were be been being do does did done has have had having "
    "can cannot could will would shall should may might must not no all any both each few more most other some such only own "
    "same too very also however although though while because although even just still again further once ever never "
    "often usually sometimes now today later early ago already almost another many much several one two three four "
    "five six seven eight nine ten first second third"
)
_OPENERS = _words(
    "The A An In On At By For From Of To With And Or But As If It Its He She They We I You His Her Their Our My This "
    "That These Those There Here When While Where Who What Which Why How After Before During Since Until Although "
    "Though However Because Some Many Most Several All Both Each Other Another Such One Two Three Four Five Six Seven "
    "Eight Nine Ten Not No Also Only Even Then Thus Therefore Today Later Early Following According Despite Under Over "
    "Among Between Through Within Without Upon Once Instead Unlike Like Meanwhile Moreover Furthermore Additionally "
    "Finally Initially Eventually Originally Recently Currently Often Usually Sometimes Historically Traditionally "
    "Is Are Was Were Has Have Had Do Does Did Can Could May Might Would Will Should Must More Much Few Every Any Per Via"
)
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_UNIT = (
    r"(?:km2|km²|km/h|km|kilomet(?:er|re)s?|met(?:er|re)s?|cm|mm|m|miles?|mi|feet|foot|ft|inch(?:es)?|acres|hectares|ha|"
    r"square (?:miles|kilomet(?:er|re)s|feet|met(?:er|re)s)|kg|kilograms?|grams?|g|tons?|tonnes?|pounds|lb|lbs|"
    r"seconds|minutes|hours|days|weeks|months|years|decades|centuries|degrees|°[CF]|mph|MW|GW|kW|volts?|watts?|Hz|kHz|MHz|"
    r"lit(?:er|re)s?|gallons|bits?|bytes|KB|MB|GB)"
)
_COUNT = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    r"eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds|thousands|a hundred|a dozen)"
)
_TYPED = re.compile(
    rf"""
  (?P<date>\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?\b|\b\d{{1,2}}(?:st|nd|rd|th)?\s{_MONTH}(?:,?\s\d{{3,4}})?\b
      |\b{_MONTH},?\s(?:of\s)?\d{{4}}\b|\b(?:\d{{1,2}}(?:st|nd|rd|th)|[a-z]+(?:th|teenth))(?:\s|-)centur(?:y|ies)\b)
 |(?P<money>(?:\b(?:US|A|C|HK|NZ))?[$£€¥]\s?\d[\d,]*(?:\.\d+)?(?:\s(?:thousand|million|billion|trillion))?
      |\b\d[\d,]*(?:\.\d+)?(?:\s(?:million|billion))?\s(?:dollars|pounds|euros|francs)\b)
 |(?P<percent>\b\d+(?:\.\d+)?(?:%|\s?per\s?cent\b))
 |(?P<measure>\b\d[\d,]*(?:\.\d+)?(?:\s(?:million|billion))?[\s-]{_UNIT}(?![\w²]))
 |(?P<year>\b(?:1\d|20)\d\d(?:[–-](?:\d\d)?\d\d)?\b(?!,\d)|\b(?:1\d|20)\d0s\b|\b\d{{1,4}}\s(?:BCE?|AD|CE)\b)
 |(?P<number>(?<![\w.,])\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?!\w)|(?<![\w.,])\d+(?:\.\d+)?(?:\s(?:million|billion|thousand))?(?![\w,.]*\d)(?!\w)
      |\b{_COUNT}\b)
 |(?P<quote>(?<![\w.,])["“](?P<inner>\w[^"“”\n]{{1,58}}?[\w!?)])[.,]?["”](?!\w))
 |(?P<name>\b[A-Z][\w’'-]*(?:\.[A-Z])*(?:(?:\s(?:of|the|de|la|von|van|der|du|di|da|del|al|bin|and\sthe)){{0,2}}\s(?:[A-Z]\.\s?)*[A-Z][\w’'-]+)*)
    """,
    re.VERBOSE,
)
_NP = r"(?:[a-z][a-z’'-]+ ){0,2}[a-z][a-z’'-]{2,}"
_PHRASE = re.compile(
    rf"\b(?P<lead>the|a|an|its|his|her|their|of|by|for|with|into|as|from|through|in|and|or|include|including|called|was|were|is|are) "
    rf"(?P<np>{_NP}(?: (?:of|and|in|for) (?:the )?{_NP}|(?: of [A-Z]\w+))?)(?=[\s,.;:)])"
)
_REASON = re.compile(
    r"\b(?:because|in order|due) (?P<reason>(?:of |to )?[^,.;:()]{8,70}?)(?=[,.;:]|(?: and | which | but | that ))"
)
_NOT_NOUNS = _words(
    "known called used made found given taken seen said held based located considered born named built due able likely "
    "well long far it's don't became began came went took got made became left led won ran told wrote gave found felt kept "
    "include includes including included become becomes began begins use uses using make makes making take takes see say "
    "says said remain remained remains consist consists contain contains lie lies provide provides allow allows cause "
    "causes require requires exist exists refer refers mean means form forms according rather despite whether either "
    "neither less least least least together away down back especially particularly mostly mainly generally primarily "
    "so-called thus therefore hence instead soon widely commonly"
)
_FIRST_NAMES = _words(
    "Adam Alan Albert Alexander Alfred Alice Andrew Anna Anne Anthony Antonio Arthur Barack Ben Benjamin Bernard Bill "
    "Bob Brian Carl Carlos Catherine Charles Charlotte Chris Christian Christopher Claude Daniel David Dennis Diana "
    "Donald Douglas Edgar Edmund Edward Eleanor Elizabeth Emily Emma Eric Ernest Eugene Francis Franklin Frank Fred "
    "Frederick Friedrich Gary Geoffrey George Gerald Giovanni Gordon Grace Graham Gregory Guy Hans Harold Harry Heinrich "
    "Helen Henri Henry Herbert Howard Hugh Ian Isaac Jack Jacob Jacques James Jane Jason Jean Jeff Jennifer Jeremy Jim "
    "Jimmy Joan Joe Johann Johannes John Jonathan Joseph José Juan Julia Julian Karl Kate Keith Ken Kenneth Kevin Larry "
    "Laura Lawrence Lee Leo Leonard Lewis Louis Lucy Luis Luke Margaret Maria Marie Mark Martin Mary Matthew Max Michael "
    "Michel Miguel Mike Mohammed Muhammad Nancy Neil Nicholas Oliver Oscar Otto Patrick Paul Pedro Peter Philip Philippe "
    "Pierre Rachel Ralph Ray Raymond Richard Robert Roger Ronald Ross Roy Rudolf Russell Ruth Sam Samuel Sarah Scott Sean "
    "Simon Sophia Stanley Stephen Steve Steven Stuart Susan Ted Theodore Thomas Tim Timothy Tom Tony Victor Victoria "
    "Vincent Vladimir Walter Wayne Wilhelm William Winston"
)
_CALENDAR = _words(
    "January February March April May June July August September October November December Monday Tuesday Wednesday "
    "Thursday Friday Saturday Sunday"
)
_TITLES = _words(
    "Mr Mrs Ms Dr Sir Lord Lady Prince Princess King Queen Emperor Pope Saint President Professor General Captain Colonel "
    "Admiral Senator Bishop Archbishop Chancellor Sultan Duke Count Baron Minister"
)
_PLACES = _words(
    "Africa Asia Europe America Australia Antarctica Afghanistan Albania Algeria Argentina Armenia Austria Bangladesh "
    "Belgium Bolivia Brazil Britain Bulgaria Burma Cambodia Canada Chile China Colombia Croatia Cuba Cyprus Denmark Egypt "
    "England Estonia Ethiopia Finland France Germany Ghana Greece Guinea Hungary Iceland India Indonesia Iran Iraq Ireland "
    "Israel Italy Jamaica Japan Jordan Kenya Korea Kuwait Latvia Lebanon Libya Lithuania Malaysia Mali Malta Mexico "
    "Mongolia Morocco Nepal Netherlands Nigeria Norway Pakistan Panama Peru Philippines Poland Portugal Romania Russia "
    "Scotland Serbia Singapore Somalia Spain Sudan Sweden Switzerland Syria Taiwan Tanzania Thailand Tibet Tunisia Turkey "
    "Uganda Ukraine Uruguay Venezuela Vietnam Wales Yemen Zimbabwe London Paris Berlin Rome Madrid Vienna Moscow Beijing "
    "Tokyo Delhi Mumbai Cairo Athens Dublin Edinburgh Chicago Boston Philadelphia Washington Houston Dallas Detroit Seattle "
    "Toronto Montreal Sydney Melbourne Istanbul Constantinople Jerusalem Baghdad Tehran Shanghai Florence Venice Milan "
    "Naples Munich Hamburg Prague Warsaw Budapest Amsterdam Brussels Lisbon Barcelona Geneva Oxford Cambridge Manchester "
    "Liverpool California Texas Florida Virginia Ohio Pennsylvania Massachusetts Illinois Georgia Michigan Alaska Hawaii "
    "Carolina Kentucky Tennessee Alabama Louisiana Missouri Arizona Colorado Oregon Quebec Ontario York States Kingdom City "
    "River Lake Island Islands Sea Ocean Mountains Valley County Province Bay Peninsula"
)
_ABBREVIATIONS = _words(
    "Mr Mrs Ms Dr St Sr Jr Prof Gen Col Lt Capt Gov Sen Rep Rev vs etc al cf e.g i.e c ca approx No Vol Inc Ltd Co Corp U.S "
    "U.K D.C Mt Ft Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec p pp ed fl b d a.m p.m"
)
_SENTENCE_END = re.compile(r"[.!?][\"”'’)\]]*\s+(?=[\"“'‘(\[]?[A-Z0-9])")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Character spans of the sentences of one paragraph, in order, without the white space between them."""
    spans, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        word = text[start : match.start()].rsplit(None, 1)[-1:]
        last = word[0].lstrip('("“') if word else ""
        if match[0][0] == "." and (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha())):
            continue
        stop = match.start() + len(match[0].rstrip())
        spans.append((start, stop))
        start = match.end()
    if start < len(text):
        spans.append((start, len(text.rstrip())))
    return spans


def find_spans(sentence: str) -> list[Span]:
    """Typed spans of one sentence, sorted; typed ones never overlap, phrases keep clear of them."""
    spans = list(_typed(sentence))
    taken = [(s.start, s.stop) for s in spans]
    for match in _PHRASE.finditer(sentence):
        span = _phrase(match)
        if span is not None and all(span.stop <= a or span.start >= b for a, b in taken):
            spans.append(span)
    for match in _REASON.finditer(sentence):
        spans.append(Span(match.start("reason"), match.end("reason"), SpanType.REASON))
    spans.sort()
    return spans


def _typed(sentence: str) -> Iterator[Span]:
    for match in _TYPED.finditer(sentence):
        group = match.lastgroup or ""
        start, stop = match.span()
        if match["quote"] is not None:
            start, stop = match.span("inner")
            yield Span(start, stop, SpanType.QUOTE)
        elif match["name"] is not None:
            span = _name(sentence, start, stop)
            if span is not None:
                yield span
        else:
            yield Span(start, stop, SpanType(group))


def _name(sentence: str, start: int, stop: int) -> Span | None:
    text = sentence[start:stop]
    for ending in ("'s", "’s", "'", "’", "-"):
        if text.endswith(ending):
            text = text[: -len(ending)]
            break
    words = text.split(" ")
    while words and words[0] in _OPENERS:
        start += len(words[0]) + 1
        words = words[1:]
    while words and words[0] in ("of", "the", "de", "and"):
        start += len(words[0]) + 1
        words = words[1:]
    if not words or len(words[0]) < 2 or words[0] in _CALENDAR:
        return None
    stop = start + len(" ".join(words))
    if start == 0 and len(words) == 1:
        follower = sentence[stop:].split(" ", 2)[1:2]
        if words[0].endswith(("ly", "ing", "ed")) or not follower or follower[0] not in FUNCTION_WORDS:
            return None
        if words[0].endswith("s") and follower[0] in ("are", "were", "have", "can", "may"):
            return Span(start, stop, SpanType.PHRASE)
    before = sentence[:start].rstrip().rsplit(" ", 1)[-1].rstrip(".")
    if words[0] in _FIRST_NAMES and len(words) > 1 and words[-1] not in _PLACES:
        return Span(start, stop, SpanType.PERSON)
    if words[0] in _TITLES and len(words) > 1 and "of" not in words:
        return Span(start, stop, SpanType.PERSON)
    if before in _TITLES or re.match(
        r",? (?:said|wrote|argued|claimed|was born|died|stated|married)\b", sentence[stop:]
    ):
        return Span(start, stop, SpanType.PERSON)
    if words[-1] in _PLACES or (before in ("in", "near", "In") and len(words) <= 2):
        return Span(start, stop, SpanType.PLACE)
    return Span(start, stop, SpanType.NAME)


def _phrase(match: re.Match[str]) -> Span | None:
    """The part of a candidate that holds no function word except one joining "of", "and", "in", "for"."""
    start, stop = match.span("np")
    words = match["np"].split(" ")
    kept: list[str] = []
    for index, word in enumerate(words):
        joins = word in ("of", "and", "in", "for", "the") and kept and index + 1 < len(words)
        if (word in FUNCTION_WORDS and not joins) or word in _NOT_NOUNS or word.endswith(("ly", "n't")):
            break
        if word.endswith("ed") and kept:
            break
        kept.append(word)
    while kept and (kept[-1] in FUNCTION_WORDS or kept[-1] in _NOT_NOUNS):
        kept.pop()
    if not kept or (len(kept) == 1 and (len(kept[0]) < 4 or kept[0].endswith(("ed", "ing")))):
        return None
    return Span(start, start + len(" ".join(kept)), SpanType.PHRASE)
