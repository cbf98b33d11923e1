"""Words that exclude each other. Written by hand; stems, so every form of a word counts."""

from typing import NamedTuple

from agent_memory.domain.fact_guards_text import stem


def _stems(words: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words.split())


_UNGRADED = ("off", "into", "onto", "with", "for", "pro", "set", "gas", "son")


def _graded(words: str) -> frozenset[str]:
    """The stems with their comparative and superlative."""
    forms = set(words.split())
    for word in words.split():
        base = word[:-1] if word.endswith("e") else word[:-1] + "i" if word.endswith("y") else word
        forms |= {base + ending for ending in ("er", "est") if word not in _UNGRADED}
        forms |= {word + word[-1] + ending for ending in ("er", "est") if len(word) < 4 and word not in _UNGRADED}
    return _stems(" ".join(forms))


# Poles that exclude each other AND leave nothing between: "not open" says "closed".
COMPLEMENTARY = tuple(
    tuple(_stems(pole) for pole in line.split("|"))
    for line in """
open opening opens|close closing shut
allow permit permissible allowed|forbid prohibit ban disallow disallowed forbidden
accept|reject refuse decline ; enable activate enabled active|disable deactivate disabled inactive ; on|off
online|offline ; pass|fail ; present|absent ; true|false ; valid|expired void ; alive living|dead
same|different ; mandatory compulsory obligatory|optional voluntary ; include|exclude
succeed success|fail failure ; known|unknown ; inside indoors indoor|outside outdoors outdoor ; public|private
manual manually|automatic automatically automated ; free|occupied ; awake|asleep ; win|lose ; approve|deny
encrypt|plaintext ; full-time|part-time
""".replace("\n", ";")
    .strip(";")
    .split(";")
)

# Poles that exclude each other, with a middle: "not hot" does not say "cold".
CONTRARY = tuple(
    tuple(_graded(pole) for pole in line.split("|"))
    for line in """
before prior earlier precede ahead|after later follow afterwards behind
above over atop|below under beneath underneath
increase rise raise grow growth up upwards higher gain climb|decrease fall drop lower reduce decline shrink down downwards lose cut
start begin commence launch|end stop finish cease halt ; more greater|less fewer ; most|least
maximum max|minimum min ; first|last ; early|late ; big large huge enormous tall|small little tiny ; long|short
high|low ; hot warm|cold cool frozen ; fast quick quickly rapidly|slow slowly ; full|empty
near close nearby|far ; add append insert|remove delete subtract ; buy purchase|sell ; import|export
send|receive ; push|pull ; enter entry arrive arrival|leave exit depart departure ; into onto|off ; with|without
lock|unlock ; connect attach|disconnect detach ; upload|download ; encrypt|decrypt ; install|uninstall
grant give|revoke withdraw ; hire employ|fire dismiss ; credit|debit ; profit|loss
cheap inexpensive|expensive costly ; strong|weak ; heavy|light ; hard difficult|easy simple
safe|dangerous unsafe ; clean|dirty ; wet|dry ; new|old ; young|old ; rich|poor
good great excellent|bad poor terrible ; better|worse ; best|worst ; like love enjoy|dislike hate ; prefer|avoid
agree|disagree ; trust|distrust ; create|destroy ; build|demolish ; appear|disappear vanish ; remember|forget
catch|miss drop ; attack|defend ; sit|stand|lie|run|sleep|swim ; hit strike|miss ; dark|bright blond light
day daytime|night overnight nighttime ; morning|evening afternoon ; left|right ; north northern|south southern
east eastern|west western ; horizontal horizontally|vertical vertically ; front|back rear ; top|bottom
internal internally|external externally ; local locally|remote remotely
temporary temporarily|permanent permanently ; daily|weekly|monthly|quarterly|hourly|yearly annual annually
today|tomorrow|yesterday ; spring|summer|autumn fall|winter
red|blue|green|yellow|purple|orange|pink|brown|grey gray|black|white ; man boy male|woman girl female
synchronous synchronously|asynchronous asynchronously ; sender|recipient receiver
buyer customer|seller vendor supplier ; tenant|landlord ; employee|employer ; ascending|descending
prod production|staging|dev development ; read-only|read-write writable ; gross|net
inbound incoming|outbound outgoing ; domestic|international ; forward forwards|backward backwards
wholesale|retail ; lenient|strict ; urgent|routine ; visible|hidden ; breakfast|lunch|dinner ; credit|cash
use|avoid ; free gratis complimentary|chargeable charged paid
satisfied happy glad pleased|unhappy sad upset angry ; love|hate ; quiet silent|loud noisy ; thick|thin
wide broad|narrow ; deep|shallow ; tight|loose ; sharp|blunt dull ; smooth|rough ; soft|hard ; straight|curved
tame|wild ; sweet|sour bitter ; fresh|stale ; raw|cooked ; ripe|unripe ; rare|common frequent ; ancient|modern
simple|complex complicated ; single|multiple double ; married|divorced ; guilty|innocent ; brave|cowardly
generous|stingy ; polite|rude ; lazy|busy ; tired|rested ; sick ill|healthy ; hungry|thirsty ; drunk|sober
fat|slim ; whole complete completed|partial unfinished ; permanent|provisional ; fixed|variable flexible
static|dynamic ; positive|negative ; plus|minus ; even|odd ; plural|singular ; major|minor ; senior|junior
parent|child ; teacher|student pupil ; doctor|patient ; husband|wife ; brother|sister ; mother|father
son|daughter ; uncle|aunt ; king|queen ; guest|host ; friend|enemy ; ally|opponent ; lend loan|borrow
throw|catch ; rise|set ; ascend|descend ; expand|contract ; inflate|deflate ; stretch|compress
save|spend waste ; earn|spend ; gain|forfeit ; win victory|defeat ; advance|retreat ; attract|repel
join|separate split ; merge|split ; unite|divide ; combine|separate ; multiply|divide ; freeze|melt thaw
heat|cool chill ; fill|drain ; load|unload ; pack|unpack ; wrap|unwrap ; tie|untie ; dress|undress
cover|uncover ; reveal expose|hide conceal ; show|hide ; speak|listen ; question|answer
praise|blame criticise criticize ; reward|punish ; help|hinder ; protect|endanger ; repair fix|damage break
improve|worsen deteriorate ; strengthen|weaken ; lengthen|shorten ; widen|narrow ; accelerate|decelerate brake
speed|slow ; hurry|linger ; wake|sleep ; work function|malfunction ; confirm|cancel ; keep retain|discard
hold|release ; continue resume|pause suspend stop ; extend|shorten ; postpone delay|advance ; escalate|defuse
assign|unassign ; subscribe|unsubscribe ; register|deregister ; mount|unmount dismount ; deploy|undeploy
promote|demote ; upgrade|downgrade ; opt-in|opt-out ; whitelist|blacklist ; trusted|untrusted ; support|oppose
favor favour|oppose ; for|against ; pro|contra ; optimistic|pessimistic ; maximise maximize|minimise minimize
overestimate|underestimate ; majority|minority ; surplus|deficit shortage ; supply|demand ; asset|liability
income revenue|expense expenditure ; debtor|creditor ; landlord|renter ; hardware|software ; frontend|backend
client|server ; primary|secondary ; master|replica ; leader|follower ; source|destination target
origin|destination ; start|finish ; beginning|ending ; departure|arrival ; cause|effect ; past|future
former|latter ; previous|next ; ancestor|descendant ; winner|loser ; ceiling|floor ; roof|basement
indoors|outdoors ; land|sea ; urban|rural ; native|foreign ; legal lawful|illegal unlawful
real genuine|fake counterfeit ; natural|artificial synthetic ; transparent|opaque ; solid|liquid gas
wired|wireless ; printed paper|digital electronic ; full-time|part-time ; hourly-paid|salaried
mutable|immutable ; lossy|lossless ; verbose|terse ; case-sensitive|case-insensitive ; breakable|unbreakable
vegetarian vegan|meat ; male|female ; smoker|non-smoker ; odd|even ; window|aisle ; above-ground|underground
summer|winter ; monthly|yearly ; sunrise dawn|sunset dusk ; weekday|weekend ; copper|silver|gold|bronze
square|round circular ; diesel|petrol electric ; ground|air ; nobody|everybody
before|after upon following|during while ; front|behind ; bright brilliant|dim dull|dark
intact undamaged unharmed|damaged broken defective ; drinkable edible safe|toxic poisonous
shorten abbreviate|prolong lengthen ; peak surge soar|drop slump plunge dip ; stable steady|shaky volatile
patient|hasty ; calm|nervous anxious ; accurate exact precise|inaccurate approximate vague
active|passive idle dormant ; adult|child minor ; amateur|professional ; ascent|descent
blocked stuck|unblocked cleared ; bottom|top ; brand-new|used second-hand refurbished
broken|working functional ; careful cautious|careless reckless ; ceiling|ground ; charge|discharge
cloudy|clear sunny ; common|unusual uncommon ; compliant|non-compliant ; confident|unsure uncertain
confidential secret|public ; conservative|progressive ; convex|concave ; cooperative|competitive
correct right|wrong incorrect mistaken ; crowded busy|deserted quiet ; customised custom|standard
debug|release ; delayed late|punctual on-time ; dense|sparse ; dependent|independent ; direct|indirect
domestic|foreign ; duplicate|unique ; durable|fragile ; dusty|spotless ; dynamic|fixed ; eager|reluctant
eligible|ineligible barred ; entire|partial ; essential vital crucial|unimportant trivial ; even|uneven
excited|bored ; exempt|liable subject ; explicit|implicit ; exterior|interior ; fair|unfair
familiar|strange unfamiliar ; famous|obscure ; fertile|barren ; finite|infinite unlimited ; flat|steep
flammable|fireproof ; floating|sinking ; float|sink ; formal|informal casual ; frequently often|rarely seldom
friendly|hostile ; gradual gradually|sudden suddenly abrupt ; guaranteed|uncertain ; healthy|unhealthy
honest|dishonest ; huge|minor ; humid damp moist|dry arid ; identical|distinct ; in-house|outsourced external
initial|final ; inner|outer ; input|output ; insert|eject ; insured|uninsured ; interactive|batch
intentional deliberate|accidental ; invite|exclude uninvite ; joint|separate ; landlocked|coastal ; lead|follow
lease rent|own ; leaking|sealed watertight ; least|greatest ; left-handed|right-handed ; lenient|harsh
limited|unlimited unrestricted ; linear|nonlinear ; literal|figurative ; live|recorded ; lower|upper
loyal|disloyal ; malicious|benign harmless ; mature|immature ; mild|severe ; mobile portable|stationary fixed
modern|outdated old-fashioned ; moving|parked stationary ; narrower|wider ; near|distant
neat tidy|messy untidy ; noisy|silent ; obey|disobey ; occupied taken|vacant ; official|unofficial
opaque|clear ; open-source|proprietary ; ordinary|special extraordinary ; original|copy ; overdue|settled
overestimate|understate ; over-the-counter|prescription ; owner|tenant ; painful|painless
parallel|sequential serial ; partial|total full ; peace|war ; persistent|ephemeral transient
planned scheduled|unplanned unscheduled ; plenty|scarcity ; poisonous|edible ; popular|unpopular ; powerful|weak
predator|prey ; prepaid|postpaid ; present|missing ; prevent|cause ; probable likely|unlikely improbable
productive|unproductive ; proven|unproven ; pure|contaminated ; qualified|unqualified ; random|deterministic
recent|outdated ; recommended|discouraged ; recommend|discourage ; recyclable|disposable ; refill|drain
regular|irregular ; relevant|irrelevant ; reliable|unreliable flaky ; responsible|irresponsible
restricted|unrestricted ; retail|bulk ; rigid|flexible ; safe|risky ; salty|unsalted ; satisfy|disappoint
seasonal|year-round ; secure|insecure ; selfish|generous ; separate|together ; shiny|matte ; signed|unsigned
silent|vocal ; similar|different ; slim|thick ; sober|intoxicated ; sold-out|available ; sparkling|still
standing|seated ; start|abort ; stateless|stateful ; sterile|contaminated ; strict|relaxed
successful|unsuccessful ; superior|inferior ; tall|short ; temporary|lasting ; thaw|freeze ; together|apart
total|partial ; toward towards|away ; underage|adult ; unlimited|capped ; usual|unusual ; useful|useless
valuable|worthless ; vacant|occupied ; verified|unverified ; victim|culprit ; voluntary|forced ; warn|reassure
waterproof|permeable ; well|badly poorly ; wealthy|poor ; windy|calm ; winner|runner-up ; hire|layoff
east|north|south|west ; monthly|weekly|daily|yearly ; metric|imperial ; singular|plural ; tea|coffee
visa|mastercard ; android|ios ; windows|linux|macos ; english|german|french|spanish|italian|dutch|portuguese
last previous|next upcoming
""".replace("\n", ";")
    .strip(";")
    .split(";")
)

# Beginnings that turn the rest of a word round: inwards and outwards, upstream and downstream.
OPPOSITE_BEGINNINGS = tuple(
    tuple(pair.split("|"))
    for pair in (
        "in|out up|down over|under fore|back pre|post in|ex im|ex in|de en|de at|de as|de up|down on|off inter|intra macro|micro multi|single max|min "
        "multi|mono hyper|hypo anti|pro a|de sub|super con|dis en|dis as|dis short|long high|low full|half full|part front|back left|right top|bottom "
        "early|late day|night north|south east|west hard|soft big|small first|last read|write open|closed pay|free un|re de|re"
    ).split()
)


class Opposites(NamedTuple):
    """One group: *poles* exclude each other; *complementary*: nothing lies between."""

    poles: tuple[frozenset[str], ...]
    complementary: bool


GROUPS = (*(Opposites(poles, True) for poles in COMPLEMENTARY), *(Opposites(poles, False) for poles in CONTRARY))
_GROUPS_OF: dict[str, list[int]] = {}
for _number, _group in enumerate(GROUPS):
    for _stem in frozenset().union(*_group.poles):
        _GROUPS_OF.setdefault(_stem, []).append(_number)


def groups_of(stems: frozenset[str]) -> list[Opposites]:
    """The groups that *stems* touch, complementary ones first."""
    return [GROUPS[number] for number in sorted({n for stem_ in stems for n in _GROUPS_OF.get(stem_, ())})]
