"""Other words for frequent words of encyclopaedic English: the table that rewording questions goes by.

Verbs stand in their base form and are inflected here; nouns get their plurals. In ``a>b c`` only ``a`` may be replaced;
the words of ``a b c`` replace one another. An underscore is a space.
"""

from collections.abc import Callable

from precog.questions.verbs import participle, past_form, present_form
from precog.questions.vocabulary import words

__all__ = [
    "AGENTS",
    "DEMONYMS",
    "NOUN_WORDINGS",
    "NUMERALS",
    "OTHER_WORDINGS",
    "PARTICIPLE_WORDINGS",
    "PAST_WORDINGS",
    "PRESENT_WORDINGS",
    "VERB_WORDINGS",
]

_VERBS = """
found>establish set_up|establish>found set_up create|create>make design|build>construct erect
construct>build erect|erect>build construct|demolish>tear_down destroy|destroy>wreck demolish|begin>start commence
start>begin commence|end>finish conclude|finish>end complete|complete>finish|continue>go_on carry_on|stop>cease halt
die>pass_away|kill>slay murder|murder>kill|assassinate>murder kill|bury>inter|marry>wed|lose>forfeit
write>pen author|compose>write|publish>release issue|release>publish issue|issue>publish release|record>tape
perform>play|sing>perform|paint>draw depict|draw>sketch|direct>make|invent>devise create
discover>find uncover|find>discover|develop>create design|design>devise plan|produce>make create|sell>market
buy>purchase acquire|purchase>buy acquire|acquire>buy obtain gain|obtain>get acquire gain|receive>get obtain
get>receive obtain|give>grant hand|grant>give award|award>give grant|donate>give|provide>supply offer give
supply>provide deliver|offer>provide|lead>head guide|head>lead|rule>govern reign_over|govern>rule|control>run command
command>lead control|defeat>beat overcome|beat>defeat|conquer>take seize|seize>capture take|capture>seize take
invade>attack enter|attack>assault strike|defend>protect guard|protect>guard defend|fight>battle combat
join>enter|enter>join quit|arrive>come|return>come_back go_back|move>relocate|travel>journey go
visit>call_at|live>reside dwell|reside>live|occupy>inhabit hold|inhabit>live_in
employ>use hire|hire>employ|use>utilize|utilize>use|serve>work|
teach>instruct educate|learn>study|attend>go_to|train>educate school|examine>study inspect
become>turn_into come_to_be|remain>stay|stay>remain|change>alter modify|alter>change|modify>change|replace>supplant
rename>retitle|name>call|call>name term|describe>depict characterize|depict>show portray|show>display depict
portray>depict show|represent>stand_for symbolize|include>contain comprise|contain>include hold|comprise>include
cover>span extend_over|extend>stretch reach|stretch>extend|reach>attain arrive_at|surround>encircle
divide>split separate|split>divide|separate>divide|connect>link join|link>connect|combine>merge unite|merge>combine
unite>combine join|increase>grow rise|grow>increase expand|expand>grow enlarge|rise>increase climb|decrease>fall decline
decline>decrease fall|reduce>lower cut|fall>drop decline|cause>bring_about produce|prevent>stop avert|allow>permit let
permit>allow|forbid>ban prohibit|ban>prohibit forbid|prohibit>ban|require>need demand|need>require|demand>require
support>back aid|help>assist aid|assist>help|oppose>resist|resist>oppose|approve>accept ratify|reject>refuse turn_down
refuse>reject decline|accept>approve|adopt>take_up embrace|abolish>end scrap|introduce>bring_in launch
launch>start begin|open>inaugurate|close>shut|elect>choose vote_in|choose>select pick|select>choose pick
appoint>name nominate|nominate>propose name|propose>suggest put_forward|suggest>propose|claim>assert maintain
argue>contend claim|assert>claim state|state>declare say|declare>announce proclaim|announce>declare proclaim
proclaim>declare|believe>think hold|think>believe|consider>deem|regard>consider view|view>see regard|
recognize>acknowledge|estimate>reckon judge|predict>forecast|expect>anticipate|happen>occur take_place|occur>happen
appear>emerge show_up|emerge>appear|disappear>vanish|form>create|shape>form mould|separate>part
locate>situate place|situate>locate place|place>put position|own>possess have|possess>own
keep>retain hold|store>keep hold|carry>transport bear|transport>carry move|send>dispatch|throw>hurl
emigrate>move|flee>escape run_away|escape>flee|arrest>detain|imprison>jail|release>free|execute>put_to_death
influence>affect shape|affect>influence|inspire>influence motivate|translate>render|adapt>rework|earn>gain make
measure>gauge|generate>produce create|emit>give_off release
absorb>take_in|dissolve>melt|consume>eat use|feed>nourish|hunt>chase pursue|breed>reproduce|kill>slaughter
""".replace("\n", "|")
_NOUNS = """
city>town municipality|town>city settlement|village>hamlet settlement|country>nation state|nation>country state
capital>seat_of_government|area>region zone|region>area district|district>area quarter|border>boundary frontier
boundary>border limit|river>stream waterway|mountain>peak|forest>wood woodland|island>isle|coast>shore seaside
shore>coast|street>road|road>street|building>structure edifice|house>home dwelling|home>house residence
palace>royal_residence|church>place_of_worship|temple>shrine|university>institution_of_learning
student>pupil learner|pupil>student|teacher>instructor|professor>academic lecturer|scientist>researcher
researcher>scientist scholar|scholar>researcher academic|author>writer|writer>author|poet>verse_writer|novel>book
book>volume work|poem>verse|play>drama|film>movie motion_picture|movie>film|song>tune track|album>record LP
band>group|singer>vocalist|musician>player|actor>performer|actress>performer|artist>painter|painter>artist
director>film_maker|composer>songwriter|king>monarch ruler|queen>monarch|monarch>ruler sovereign|ruler>sovereign leader
emperor>ruler|leader>head chief|president>head_of_state|politician>statesman|lawyer>attorney|doctor>physician
physician>doctor|soldier>fighter trooper|army>military_force|navy>sea_force|war>conflict|conflict>war struggle
battle>fight combat|fight>battle|victory>win triumph|defeat>loss|treaty>pact agreement|agreement>accord pact
rebellion>revolt uprising|revolt>rebellion uprising|uprising>revolt rebellion|law>statute act|rule>regulation
government>administration|parliament>legislature|court>tribunal|crime>offence|prison>jail|company>firm business
firm>company|business>company firm|factory>plant works|product>good item|goods>merchandise products|trade>commerce
money>funds cash|price>cost|cost>price expense|salary>pay wage|wage>pay|tax>levy|debt>liability|profit>gain earnings
job>post position|post>position office|position>post role|role>part function|task>duty job|career>working_life
worker>labourer employee|employee>worker|employer>boss|people>individuals persons|person>individual|child>youngster kid
children>youngsters kids|man>male|woman>female|wife>spouse|husband>spouse|parents>mother_and_father|family>household
ancestor>forebear|friend>companion|enemy>foe opponent|opponent>rival|rival>competitor|member>participant
founder>creator|inventor>originator|birth>nativity|death>demise passing|disease>illness sickness|illness>disease
injury>wound|cause>reason|reason>cause ground|result>outcome effect|effect>result consequence|outcome>result
purpose>aim goal|aim>goal purpose|goal>aim objective|method>technique way|technique>method|way>manner means
type>kind sort|kind>type sort|sort>kind type|part>section|portion>part|piece>part bit|amount>quantity
quantity>amount|total>sum|majority>greater_part|size>extent dimensions
length>extent|width>breadth|height>elevation|speed>velocity pace|
strength>power|era>period age|period>time era|
start>beginning|beginning>start outset|origin>source|source>origin|history>past|event>occurrence happening
festival>celebration|game>match contest|match>game|contest>competition|competition>contest tournament
tournament>competition|team>side squad|player>sportsman competitor|champion>title_holder winner|prize>award
award>prize honour|language>tongue|word>term|
newspaper>paper daily|magazine>periodical journal|journal>periodical|article>piece essay|picture>image
image>picture|statue>sculpture|painting>canvas picture|machine>device apparatus|device>gadget apparatus|tool>implement
engine>motor|ship>vessel boat|boat>vessel|car>automobile vehicle|vehicle>conveyance|aircraft>plane|plane>aircraft
railway>railroad|airport>airfield|harbour>port|port>harbour|tree>timber
animal>creature beast|creature>animal being|bird>fowl|food>nourishment|meal>dish|drink>beverage|crop>harvest
farmer>grower|stone>rock|rock>stone|metal>ore|gas>vapour|liquid>fluid|substance>material|material>substance
religion>faith creed|faith>religion belief|belief>faith|god>deity|goddess>deity|priest>clergyman|idea>concept notion
concept>idea notion|theory>hypothesis|view>opinion|opinion>view|damage>harm|aid>help
attack>assault raid|plan>scheme project|project>scheme undertaking|center>middle hub|centre>middle hub
""".replace("\n", "|")
_OTHERS = """
large>big|big>large|huge>enormous gigantic|small>little tiny|little>small|tall>high|long>lengthy
short>brief|brief>short|wide>broad|broad>wide|old>ancient aged|ancient>old|new>recent|modern>contemporary
young>youthful|last>final|final>last|main>chief primary principal|chief>main
primary>main chief|principal>main chief|major>main significant|minor>lesser|important>significant key|key>important
significant>important notable|famous>well-known renowned|renowned>famous|notable>noteworthy|popular>well-liked
common>frequent widespread|rare>uncommon unusual|unusual>rare strange|different>distinct|similar>alike|same>identical
various>diverse different|several>multiple some|many>numerous|numerous>many|whole>entire|entire>whole|complete>full
rich>wealthy|wealthy>rich|poor>needy|strong>powerful|powerful>strong mighty|weak>feeble|fast>quick rapid|quick>fast
rapid>fast quick|slow>sluggish|hot>warm|cold>chilly|dry>arid|wet>damp moist|hard>difficult|difficult>hard|easy>simple
simple>easy plain|dangerous>hazardous|safe>secure|beautiful>lovely|male>masculine|female>feminine|foreign>overseas
national>nationwide|international>global worldwide|global>worldwide
medical>clinical|illegal>unlawful|annual>yearly|yearly>annual|daily>every_day
monthly>every_month|approximately>about roughly|roughly>about|nearly>almost|almost>nearly
mainly>mostly chiefly|mostly>mainly largely|largely>mostly|primarily>mainly chiefly|especially>particularly
particularly>especially|usually>normally generally|generally>usually|often>frequently|frequently>often
sometimes>at_times|rarely>seldom|initially>at_first|originally>at_first
eventually>in_the_end finally|finally>in_the_end|currently>now
quickly>rapidly fast|rapidly>quickly|together>jointly|near>close_to|beneath>under|beside>next_to|within>inside
until>up_to|because_of>due_to|biggest>largest|largest>biggest
greatest>largest|former>previous|previous>earlier former
following>next|successful>prosperous|wooden>timber||rural>country|
""".replace("\n", "|")

AGENTS = {
    "write": "author", "direct": "director", "found": "founder", "invent": "inventor", "discover": "discoverer",
    "compose": "composer", "design": "designer", "paint": "painter", "build": "builder", "create": "creator",
    "produce": "producer", "develop": "developer", "own": "owner", "lead": "leader", "win": "winner",
    "publish": "publisher", "succeed": "successor", "precede": "predecessor", "rule": "ruler", "conquer": "conqueror",
    "sculpt": "sculptor", "teach": "teacher", "translate": "translator", "illustrate": "illustrator",
    "edit": "editor", "coach": "coach", "manage": "manager", "organize": "organizer", "sponsor": "sponsor",
    "assassinate": "assassin", "kill": "killer", "perform": "performer", "record": "performer",
}  # fmt: skip
"""Who does what a verb says: "who wrote X" is "who is the author of X"."""


def _entries(text: str) -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for entry in text.split("|"):
        if entry.strip():
            word, _, others = entry.strip().partition(">")
            found = tuple(other.replace("_", " ") for other in others.split())
            table[word.replace("_", " ")] = table.get(word.replace("_", " "), ()) + found
    return table


def _inflected(phrase: str, inflect: Callable[[str], str]) -> str:
    head, space, rest = phrase.partition(" ")
    return inflect(head) + space + rest


def _plural(phrase: str) -> str:
    for joint in (" of ", " and "):
        if joint in phrase:
            head, _, rest = phrase.partition(joint)
            return f"{_plural(head)}{joint}{rest}"
    if phrase in ("monarch", "life"):
        return {"monarch": "monarchs", "life": "lives"}[phrase]
    if phrase.endswith("man"):
        return f"{phrase[:-3]}men"
    if phrase.endswith(("s", "x", "ch", "sh")):
        return f"{phrase}es"
    if phrase.endswith("y") and phrase[-2] not in "aeiou":
        return f"{phrase[:-1]}ies"
    return f"{phrase}s"


_NO_PLURALS = (
    "people",
    "children",
    "man",
    "woman",
    "child",
    "wife",
    "money",
    "aircraft",
    "trade",
    "food",
    "damage",
    "aid",
)


def _nouns() -> dict[str, tuple[str, ...]]:
    table = _entries(_NOUNS)
    for noun, others in list(table.items()):
        plurals = tuple(_plural(other) for other in others if not other.endswith("s"))
        if not noun.endswith("s") and plurals and noun not in _NO_PLURALS:
            table.setdefault(_plural(noun), plurals)
    return table


def _verbs(inflect: Callable[[str], str]) -> dict[str, tuple[str, ...]]:
    return {
        inflect(verb): tuple(_inflected(other, inflect) for other in others)
        for verb, others in _entries(_VERBS).items()
    }


NOUN_WORDINGS = _nouns()
"""Nouns, singular and plural, to nouns that may stand for them in a question."""
VERB_WORDINGS = _verbs(str)
PAST_WORDINGS = _verbs(past_form)
PARTICIPLE_WORDINGS = _verbs(participle)
PRESENT_WORDINGS = _verbs(present_form)
OTHER_WORDINGS = _entries(_OTHERS)
"""Adjectives and adverbs."""
NUMERALS = dict(
    zip(
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
        map(str, range(2, 13)),
        strict=True,
    )
)
DEMONYMS = dict(
    pair.split(":")
    for pair in words(
        "French:France German:Germany Italian:Italy Spanish:Spain Portuguese:Portugal Greek:Greece Dutch:Holland "
        "Belgian:Belgium Swiss:Switzerland Austrian:Austria Polish:Poland Hungarian:Hungary Czech:Bohemia "
        "Romanian:Romania Bulgarian:Bulgaria Serbian:Serbia Croatian:Croatia Turkish:Turkey Russian:Russia "
        "Ukrainian:Ukraine Finnish:Finland Swedish:Sweden Norwegian:Norway Danish:Denmark Icelandic:Iceland "
        "Irish:Ireland Scottish:Scotland Welsh:Wales English:England British:Britain American:America "
        "Canadian:Canada Mexican:Mexico Brazilian:Brazil Argentine:Argentina Chilean:Chile Peruvian:Peru "
        "Colombian:Colombia Cuban:Cuba Egyptian:Egypt Moroccan:Morocco Ethiopian:Ethiopia Nigerian:Nigeria "
        "Kenyan:Kenya Israeli:Israel Iranian:Iran Iraqi:Iraq Syrian:Syria Lebanese:Lebanon Indian:India "
        "Pakistani:Pakistan Chinese:China Japanese:Japan Korean:Korea Vietnamese:Vietnam Thai:Thailand "
        "Indonesian:Indonesia Australian:Australia European:Europe African:Africa Asian:Asia"
    )
)
"""What a country's people and things are called, and the country."""
