"""The word lists that the rules for spans, questions and recall passages go by."""

__all__ = [
    "ABBREVIATIONS",
    "ADJECTIVES",
    "AUXILIARIES",
    "CALENDAR",
    "CITIES",
    "CLAUSE_OPENERS",
    "COUNTRIES",
    "DETERMINERS",
    "FIRST_HEADS",
    "FIRST_NAMES",
    "FUNCTION_WORDS",
    "HEADS",
    "IRREGULAR",
    "JOBS",
    "NOT_NOUNS",
    "NOUNS",
    "ONSETS",
    "PLACES",
    "PREPOSITIONS",
    "PRESENT",
    "PRONOUNS",
    "SENTENCE_OPENERS",
    "STATES",
    "TITLES",
    "TOWNS",
    "VOWELS",
    "words",
]


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def _pairs(text: str) -> dict[str, str]:
    pairs = (word.split(":") for word in text.split())
    return {key: value.replace("_", " ") for key, value in pairs}


FUNCTION_WORDS = frozenset(
    words(
        "a an the and or but nor so yet if then than as at by for from in into of off on onto out over to up with "
        "within without under upon about above across after against along among around before behind below beneath "
        "beside between beyond during except inside near outside per since through throughout till toward towards "
        "until via i you he she it we they me him her us them my your his its our their mine who whom whose which "
        "what when where why how that this these those there here am is are was were be been being do does did done "
        "has have had having can cannot could will would shall should may might must not no all any both each few "
        "more most other some such only own same too very also however although though while because even just still "
        "again further once ever never often usually sometimes now today later early ago already almost another many "
        "much several one two three four five six seven eight nine ten first second third"
    )
)
"""Words that carry no content."""
SENTENCE_OPENERS = frozenset(
    words(
        "The A An In On At By For From Of To With And Or But As If It Its He She They We I You His Her Their Our My "
        "This That These Those There Here When While Where Who What Which Why How After Before During Since Until "
        "Although Though However Because Some Many Most Several All Both Each Other Another Such One Two Three Four "
        "Five Six Seven Eight Nine Ten Not No Also Only Even Then Thus Therefore Today Later Early Following "
        "According Despite Under Over Among Between Through Within Without Upon Once Instead Unlike Like Meanwhile "
        "Moreover Furthermore Additionally Finally Initially Eventually Originally Recently Currently Often Usually "
        "Sometimes Historically Traditionally Is Are Was Were Has Have Had Do Does Did Can Could May Might Would Will "
        "Should Must More Much Few Every Any Per Via"
    )
)
"""Capitalised words that open sentences and are no names."""
CALENDAR = frozenset(
    words(
        "January February March April May June July August September October November December Monday Tuesday "
        "Wednesday Thursday Friday Saturday Sunday"
    )
)
NOT_NOUNS = frozenset(
    words(
        "known called used made found given taken seen said held based located considered born named built due able "
        "likely well long far it's don't became began came went took got left led won ran told wrote gave felt kept "
        "include includes including included become becomes begins use uses using make makes making take takes see "
        "say says remain remained remains consist consists contain contains lie lies provide provides allow allows "
        "cause causes require requires exist exists refer refers mean means form forms according rather despite "
        "whether either neither less least together away down back especially particularly mostly mainly generally "
        "primarily so-called thus therefore hence instead soon widely commonly"
    )
)
"""Words at which a run of words stops being a noun phrase."""
FIRST_NAMES = words(
    "Adam Alan Albert Alexander Alfred Alice Andrew Anna Anne Anthony Antonio Arthur Barack Ben Benjamin Bernard "
    "Bill Bob Brian Carl Carlos Catherine Charles Charlotte Chris Christian Christopher Claude Daniel David "
    "Dennis Diana Donald Douglas Edgar Edmund Edward Eleanor Elizabeth Emily Emma Eric Ernest Eugene Francis "
    "Franklin Frank Fred Frederick Friedrich Gary Geoffrey George Gerald Giovanni Gordon Grace Graham Gregory Guy "
    "Hans Harold Harry Heinrich Helen Henri Henry Herbert Howard Hugh Ian Isaac Jack Jacob Jacques James Jane "
    "Jason Jean Jeff Jennifer Jeremy Jim Jimmy Joan Joe Johann Johannes John Jonathan Joseph José Juan Julia "
    "Julian Karl Kate Keith Ken Kenneth Kevin Larry Laura Lawrence Lee Leo Leonard Lewis Louis Lucy Luis Luke "
    "Margaret Maria Marie Mark Martin Mary Matthew Max Michael Michel Miguel Mike Mohammed Muhammad Nancy Neil "
    "Nicholas Oliver Oscar Otto Patrick Paul Pedro Peter Philip Philippe Pierre Rachel Ralph Ray Raymond Richard "
    "Robert Roger Ronald Ross Roy Rudolf Russell Ruth Sam Samuel Sarah Scott Sean Simon Sophia Stanley Stephen "
    "Steve Steven Stuart Susan Ted Theodore Thomas Tim Timothy Tom Tony Victor Victoria Vincent Vladimir Walter "
    "Wayne Wilhelm William Winston"
)
"""Given names frequent in English prose."""
TITLES = frozenset(
    words(
        "Mr Mrs Ms Dr Sir Lord Lady Prince Princess King Queen Emperor Pope Saint President Professor General Captain "
        "Colonel Admiral Senator Bishop Archbishop Chancellor Sultan Duke Count Baron Minister"
    )
)
"""What stands before a person's name."""
COUNTRIES = frozenset(
    words(
        "Australia Afghanistan Albania Algeria Argentina Armenia Austria Bangladesh Belgium Bolivia Brazil Britain "
        "Bulgaria Burma Cambodia Canada Chile China Colombia Croatia Cuba Cyprus Denmark Egypt England Estonia "
        "Ethiopia Finland France Germany Ghana Greece Guinea Hungary Iceland India Indonesia Iran Iraq Ireland Israel "
        "Italy Jamaica Japan Jordan Kenya Korea Kuwait Latvia Lebanon Libya Lithuania Malaysia Mali Malta Mexico "
        "Mongolia Morocco Nepal Netherlands Nigeria Norway Pakistan Panama Peru Philippines Poland Portugal Romania "
        "Russia Scotland Serbia Singapore Somalia Spain Sudan Sweden Switzerland Syria Taiwan Tanzania Thailand Tibet "
        "Tunisia Turkey Uganda Ukraine Uruguay Venezuela Vietnam Wales Yemen Zimbabwe"
    )
)
TOWNS = frozenset(
    words(
        "London Paris Berlin Rome Madrid Vienna Moscow Beijing Tokyo Delhi Mumbai Cairo Athens Dublin Edinburgh "
        "Chicago Boston Philadelphia Washington Houston Dallas Detroit Seattle Toronto Montreal Sydney Melbourne "
        "Istanbul Constantinople Jerusalem Baghdad Tehran Shanghai Florence Venice Milan Naples Munich Hamburg Prague "
        "Warsaw Budapest Amsterdam Brussels Lisbon Barcelona Geneva Oxford Cambridge Manchester Liverpool"
    )
)
STATES = frozenset(
    words(
        "California Texas Florida Virginia Ohio Pennsylvania Massachusetts Illinois Georgia Michigan Alaska Hawaii "
        "Carolina Kentucky Tennessee Alabama Louisiana Missouri Arizona Colorado Oregon Quebec Ontario"
    )
)
"""States and provinces."""
PLACES = (
    COUNTRIES
    | TOWNS
    | STATES
    | frozenset(
        words(
            "Africa Asia Europe America Antarctica York "
            "States Kingdom City River Lake Island Islands Sea Ocean "
            "Mountains Valley County Province Bay Peninsula"
        )
    )
)
"""Countries, cities and the last words of place names."""
ABBREVIATIONS = frozenset(
    words(
        "Mr Mrs Ms Dr St Sr Jr Prof Gen Col Lt Capt Gov Sen Rep Rev vs etc al cf e.g i.e c ca approx No Vol Inc Ltd "
        "Co Corp U.S U.K D.C Mt Ft Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec p pp ed fl b d a.m p.m"
    )
)
"""Words whose full stop ends no sentence."""
HEADS = frozenset(
    words(
        "University College School Church Cathedral Museum Hospital Party War Revolution Treaty Act Empire Dynasty "
        "Republic Kingdom Council Army Company Corporation Bank River Lake Island Mountain Mountains Ocean Sea Desert "
        "City County Province Street Road Bridge Tower Palace Castle Park Stadium Airport Railway League Cup "
        "Championship Award Prize Festival Theatre Library Association Society Institute Agency Commission Court "
        "Committee Union Conference Organization Academy Ministry Department Parliament Government Protocol Theory "
        "Plan"
    )
)
"""Last words of names that say what is named."""
FIRST_HEADS = frozenset(words("Battle Treaty University House Bank Duke Council King Queen"))
"""First words of names that say what is named."""
NOUNS = words(
    "anchor apple arrow bag bell bird boat book bottle box bread bridge brush bucket button camera candle car "
    "carpet chair clock cloud coat coin cup curtain desk dog door dress drum engine feather fence flag flower "
    "fork garden gate glass glove guitar hammer hat horse house island jacket jar key kite knife ladder lamp leaf "
    "letter lion map mirror moon mountain needle nest paper pencil piano picture pillow plate pocket pump ring "
    "river road rope sail scarf shell ship shirt shoe spoon stamp star stone table tent ticket tower train tree "
    "trumpet umbrella valley vase violin wagon wall watch wheel whistle window wolf"
)
ADJECTIVES = words(
    "amber ancient black blue bold brass brave bright broken brown calm clever cold copper crimson curved dark "
    "deep dry dusty early empty fancy fast flat fresh gentle giant gold grand gray green happy heavy hidden "
    "hollow iron large late light little lonely long loud lucky narrow noisy old orange pale pink plain proud "
    "purple quick quiet rapid rare red rough round royal rusty sharp short silent silver simple slow small smooth "
    "soft square steep strange strong sweet tall thin tiny warm white wide wild wise wooden yellow young"
)
CITIES = words(
    "Aberdeen Adelaide Algiers Antwerp Athens Austin Bergen Berlin Bologna Boston Bristol Cairo Calgary Chicago "
    "Cologne Dallas Delhi Denver Dublin Florence Geneva Genoa Ghent Glasgow Hanoi Helsinki Houston Kyoto Lagos "
    "Leeds Lima Lisbon London Lyon Madrid Manila Milan Montreal Moscow Mumbai Munich Nairobi Naples Osaka Oslo "
    "Oxford Paris Perth Prague Quito Riga Rome Seattle Seoul Sofia Sydney Tokyo Toronto Turin Vienna Warsaw "
    "Zurich"
)
JOBS = words(
    "actor artist baker banker barber builder butcher carpenter chemist clerk cook dancer dentist doctor driver "
    "editor engineer farmer fisherman gardener guard hunter judge lawyer librarian mechanic miner musician nurse "
    "painter pilot plumber poet porter priest sailor scientist singer soldier surgeon tailor teacher translator "
    "waiter weaver writer"
)
PREPOSITIONS = frozenset(words("as at between by during for from in into near of on since through to under until with"))
DETERMINERS = frozenset(words("a an her his its that the their this"))
CLAUSE_OPENERS = frozenset(words("and but or when while because although though if that which who where"))
"""Words that open a clause and are dropped when it becomes a question."""
PRONOUNS = frozenset(words("He She It They he she it they"))
ONSETS = words("b br c ch d dr f g gr h j k l m n p r s sh st t tr v w z")
VOWELS = words("a e i o u a e i o ai ee")
AUXILIARIES = frozenset(words("are can could did do does had has have is may might must should was were will would"))
IRREGULAR = _pairs(
    "wrote:write became:become began:begin won:win made:make took:take led:lead gave:give found:find held:hold "
    "built:build came:come went:go saw:see had:have said:say lost:lose fell:fall rose:rise grew:grow knew:know "
    "left:leave met:meet kept:keep sent:send spent:spend brought:bring bought:buy sold:sell told:tell "
    "thought:think taught:teach caught:catch fought:fight chose:choose spoke:speak broke:break drew:draw "
    "drove:drive flew:fly got:get ran:run sang:sing set:set put:put cut:cut hit:hit let:let stood:stand "
    "struck:strike swore:swear threw:throw wore:wear bore:bear felt:feel meant:mean paid:pay laid:lay read:read "
    "understood:understand withdrew:withdraw overthrew:overthrow hosted:host included:include used:use"
)
"""Past tenses and their base forms."""
PRESENT = _pairs(
    "has:have includes:include uses:use contains:contain becomes:become lies:lie consists:consist "
    "provides:provide makes:make takes:take means:mean requires:require occurs:occur refers:refer "
    "produces:produce covers:cover allows:allow causes:cause plays:play shows:show states:state serves:serve "
    "remains:remain borders:border represents:represent features:feature holds:hold begins:begin runs:run "
    "comes:come gives:give"
)
"""Third-person forms and their base forms."""
