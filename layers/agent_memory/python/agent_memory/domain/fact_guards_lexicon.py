"""Closed word lists of the fact guards. Written by hand and kept small; stems, so every form of a word counts."""

from agent_memory.domain.fact_guards_text import stem

NEGATORS = frozenset("not no never nobody none nothing neither nowhere without hardly lack lacks lacking".split())
# Verbs and adjectives that deny by themselves.
DENYING = frozenset(stem(word) for word in "skip omit avoid ignore neglect impossible unable unavailable invalid incorrect unsupported unnecessary "
                    "unsuitable incomplete inaccessible unauthorised unauthorized ineligible incompatible absent missing".split())  # fmt: skip
NEGATIVE_PREFIXES = ("un", "in", "im", "dis", "non", "non-", "ir", "il")
# Words that only look like a negated other word.
NOT_NEGATED = frozenset(
    "under until unit union unite united inside into income invoice input indoor important discount display dispatch district disk "
    "important insure inform intend invest imply import impress impose improve inform distance universe unless discover".split()
)

ALL = frozenset("all every each everyone everybody everything always any entire whole both anyone everywhere".split())
SOME = frozenset("some several certain partly partially various someone somebody".split())
SOMETIMES = frozenset("sometimes occasionally rarely seldom few infrequently".split())
MOST = frozenset("most mostly usually generally normally often frequently majority typically".split())
ONLY = frozenset("only solely exclusively merely".split())

MUST = frozenset("must shall required requires require mandatory compulsory obligatory obliged obligated".split())
SHOULD = frozenset("should recommended recommend ought advised advisable preferably".split())
MAY = frozenset("may might could possibly perhaps maybe potentially".split())
CAN = frozenset("can able allowed permitted permit permits allow allows may entitled".split())
OPTIONAL = frozenset("optional voluntary optionally".split())

FUNCTION = frozenset(
    "a an the this that these those it its he she they them his her their we our you your i my is are was were be been being am do does did has have "
    "had will would shall should can could may might must to of in on at by for from with without and or but as if then than there here so such not no "
    "into onto over under above below before after until till since during per via about which who whom whose what when where while also just very "
    "up down out off again own same too only".split()
)
PREPOSITIONS = frozenset(
    "of in on at by for from to with without into onto over under above below before after until till since during per via about through behind "
    "beside between against toward towards near than across along around inside outside within upon among".split()
)
# "x with y" says "y with x".
MUTUAL = frozenset("with near beside between against along".split())
LABEL_NOUNS = frozenset(
    "gate dock kiln line bay room floor section step rule version phase level batch order depot table chapter page port zone unit building terminal platform "
    "track lane aisle shelf rack slot station machine pump crane lift server node cluster tier class grade type model form clause article paragraph "
    "appendix invoice ticket case site plant warehouse number no queue channel hall door window block sector team group route truck van bus flight train "
    "release sprint quarter week day stage ward desk counter policy plan tank oven boiler valve sensor camera printer box bin silo locker seat row "
    "item part option code id account room suite apartment street pier berth hangar press mill lab".split()
)

# Words that say the same in a statement of fact. They only lower the similarity that is asked for; no guard reads them.
SYNONYMS = {
    word: group.split()[0]
    for group in """
kid child boy girl youngster toddler baby infant
man guy gentleman male person human people somebody someone
woman lady female
cut slice chop
run sprint race jog
jump leap hop bounce
look watch view gaze stare
big large huge giant
small little tiny
quick fast rapid swift quickly fast rapidly
slow slowly
happy cheerful glad
talk speak chat
begin start commence
end finish conclude
buy purchase acquire
client customer buyer
supplier vendor provider
staff employee worker personnel
firm company business
car vehicle automobile
bike bicycle
road street
fix repair mend
send ship dispatch forward
get receive obtain
need require want
keep store hold save retain
delete remove erase
show display present
allow permit
forbid prohibit ban
limit cap maximum ceiling
error failure fault
picture photo image photograph
place site location
choose select pick
help assist support
ask request
answer reply respond
pay settle
price cost fee charge
refund reimburse reimbursement
call phone telephone ring
job task
meeting call
expire lapse
locate place situate
last take run
verify check confirm validate
usual normal typical
near beside next
forest wood
rock stone
sea ocean
ride drive
sit rest
plane aircraft airplane
food meal
boat ship
""".strip().splitlines()
    for word in group.split()
}
SYNONYMS = {stem(word): stem(head) for word, head in SYNONYMS.items()}
