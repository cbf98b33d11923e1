"""Whether words give an order or tell of one: "ignore the rules" is an order, "attackers say: ignore the rules" is not.

A grammar of position, not a list of attacks: an order starts a clause, or follows "you must", "agents should",
"please", "make sure to". What stands in quotation marks inside a report is spoken of.
"""

import re

_SENTENCES = re.compile(
    r"(?<=[.!?;\u3002\uff01\uff1f\u061f\u0964])\s+|[\u3002\uff01\uff1f]|\n+|\s+[-\u2013\u2014]+\s+|\s*[\u2014]\s*"
)
_AI = (
    r"(?:ai|a\.i\.|llms?|gpt|chatgpt|claude|gemini|copilot|chatbots?|language models?|assistants?|"
    r"(?:ai|llm|autonomous|automated|software) (?:agents?|assistants?|models?|systems?|bots?|tools?)|agents?|"
    r"models?|bots?|(?:future |later |all |other )?(?:runs|instances|sessions)|whoever [a-z]+ this(?: automatically)?)"
)
_FILLERS = (
    r"(?:please|kindly|now|then|and|or|but|so|also|first|second|next|finally|lastly|instead|just|simply|immediately|"
    r"therefore|always|never|only|do not|don'?t|must|will|shall|should|may|can|from now on|henceforth|important|"
    r"urgent|warning|"
    r"attention|note|remember|reminder|rule|instructions?|directive|order|command|task|step|ok|okay|hi|hello|hey|"
    r"again|secretly|silently|quietly|at once|you|i|we|to|it|is|that|\d+)"
)
_DIRECTIVE = (
    rf"(?:\b(?:you|{_AI})(?: \w+ly)? (?:must|should|shall|will|can|may|have to|has to|need to|needs to|are to|is to|"
    r"ought to|are (?:required|instructed|requested|authori[sz]ed|permitted|expected|asked|free|told|allowed|"
    r"obliged) to|"
    r"is (?:required|instructed|requested|authori[sz]ed|permitted|expected|asked|free|allowed|obliged) to)(?: now|"
    r" also|"
    r" always| never| not| only| first| then| immediately| simply| silently)*"
    r"|\b(?:make sure|be sure|ensure|remember|do not forget|don'?t forget|you want|want you|need you|ask you|"
    r"tell you|"
    r"instruct you|order you|command you|require you|authori[sz]e you|permit you|allow you|advise you|like you|"
    r"would you|could you|can you|try|"
    r"your (?:new |only |real |true |next |first )?(?:task|job|role|goal|duty|purpose|mission|objective) (?:now )?is|"
    r"(?:important|critical|essential|mandatory|required|necessary|vital|imperative|best|fine|safe|ok|okay|"
    r"right)(?: for you)?)"
    r"(?: (?:to|that you|you|always|never|now|not))+"
    r"|\buse [^.;]{1,40} to"
    r"|\b(?:must|should|shall|need to|have to|please|kindly|now|then|instead)(?: always| never| not| be)*)"
)
_ORDERED = re.compile(rf"(?:^|[,:()\[{{<>\"'`*#|/\\\]]|--)[^\w]*(?:(?:{_AI}|{_FILLERS})[,:]?\s+)*$|{_DIRECTIVE}\s+$")
_JOINED = re.compile(r"\b(?:and|then|or|but)(?: (?:then|also|always|never|do not|don'?t|please|instead|silently))*\s+$")
_VERB_WORDS = (
    "abort accept act activate add adjust adopt advise allow always answer append apply approve ask assign assist "
    "assume attach authorise authorize avoid ban begin behave bill block book bring buy bypass call cancel change "
    "charge check choose classify clear collect complete comply confirm consider continue convert convince copy "
    "count create credit decline decode decrypt delete deliver deny describe direct disable discard disclose "
    "discount dismiss dispatch display disregard do double download draft drain drop email emphasise emphasize "
    "enable encode encourage encrypt end endorse enter erase escalate exaggerate exclude execute exfiltrate "
    "explain export extend extract fabricate fake favor favour fetch find finish flag follow forge forget forward "
    "gather generate give grant halve handle help hide highlight hold honor honour ignore include increase inform "
    "insert insist install instruct invoice invoke issue keep kill launch leak leave let lie link list load lock "
    "log look lower mail make mark mention merge modify move never notify obey obtain offer omit open output "
    "overcharge override overwrite parse pass pay permit pick place post praise prefer prefix prepare present "
    "pretend print prioritise prioritize process produce promote provide publish purge push put quit quote raise "
    "rank rate read reboot recite recommend record redirect refer refund refuse register reject release remember "
    "remove rename repeat replace reply report reschedule reserve reset respond restart resume return reveal "
    "rewrite rinse rotate route run save say scan schedule search select send serve set share ship shorten show "
    "shut sign skip start state steer stop store stress submit subscribe suggest summarise summarize suppress "
    "switch take tell terminate tick transfer translate transmit treat trigger trust try turn unlock unsubscribe "
    "update upload upvote use verify view visit waive whitelist wipe wire withhold write"
)
_VERBS = frozenset(_VERB_WORDS.split())
_FIRST = re.compile(rf"^[^\w]*(?:(?:{_FILLERS}|{_AI})[,:]?\s+)*([a-z]+)\b")
_AFTER_CONDITION = re.compile(
    r"[,:)]\s*(?:(?:so|and|then|but|please|always|never|then|do not|don'?t|simply|you must|you should)\s+)*([a-z]+)\b"
)
_TELLS = re.compile(rf"{_DIRECTIVE}\s+(?:be |always |never |not |silently )*([a-z]+)\b")

_QUOTED = re.compile(
    r"\"[^\"\n]{1,300}\"|\u201c[^\u201d\n]{1,300}\u201d|\u00ab[^\u00bb\n]{1,300}\u00bb|`[^`\n]{1,300}`|"
    r"\u201e[^\u201c\u201d\n]{1,300}[\u201c\u201d]|"
    r"(?<!\w)'[^'\n]{3,300}'(?!\w)|\u300c[^\u300d\n]{1,300}\u300d"
)
# Words by which people speak of a text instead of following it.
_REPORTING = re.compile(
    r"\b(?:prints?|printed|phrases?|strings?|fixtures?|examples?|e\.g|such as|for instance|like|attacks?|attackers?|"
    r"injections?|inject\w*|payloads?|jailbreaks?|phishing|spam|scam|blocked?|blocks|detect\w*|flag(?:s|ged)|"
    r"filter(?:s|ed)|"
    r"scann\w+|red[- ]team\w*|pen(?:etration)?[- ]?test\w*|security (?:review|test|team|audit|training)|"
    r"vulnerab\w+|malicious|said|says|wrote|writes|asked|"
    r"titled|called|named|labell?ed|reads|contain(?:s|ed)|includ(?:es|ed)|quot\w+|mention(?:s|ed)|subject|heading|"
    r"button|slide|banner|poster|sign|logs?|logged|test (?:case|suite|data|set)s?|documents?|documentation|"
    r"article|paper|blog|"
    r"lesson|course|training|workshop|tutorial|explains?|teach\w*|describ\w+|example|sample|template|known|"
    r"classic|typical|"
    r"message|error|warn(?:s|ed)|shows?|showed|reported|ticket|rejected|refused|quarantin\w+|"
    r"frase|ataque|ejemplo|attaque|exemple|phrase|angriff\w*|beispiel\w*|satz|text|esempio|attacco|exemplo)\b"
)
_SECURITY = re.compile(
    r"\b(?:attack(?:s|ers?|ed)?|injections?|jailbreaks?|phishing|scam(?:s|mers?)?|malicious|red[- ]team\w*|"
    r"pen(?:etration)?[- ]?test\w*|exploit\w*|"
    r"security (?:review|test|team|audit|training|policy|report|scanner|guide\w*)|owasp|threat model|vulnerab\w+|"
    r"scanner|fixture|"
    r"test (?:case|suite)s?|ataques?|angriff\w*|attaques?|attacc\w+|inyecci\w+|guardrails? (?:blocked|reject\w*|"
    r"catch\w*))\b"
)
# "Do what this says" makes a quotation an order again.
_FOLLOW = re.compile(
    r"\b(?:follow|obey|execute|comply|carry out|act on|apply|adhere|perform|do (?:exactly )?(?:what|as)|you must|"
    r"you should|"
    r"remember|store|save|memori[sz]e|instructions? (?:is|are)|rule is|respond|reply|answer|say|output|print|"
    r"repeat|treat)"
    r"(?=\W)[^\"'`\u201c\u00ab]{0,40}$"
)
# What stands before a quotation that is part of a structure, not of a sentence.
_OPENS, _APART = ":,{[(", " : "
_ENGLISH = re.compile(r"\b(?:the|of|and|that|with|you|your|this|was|were|their|which|has|have|had)\b")
_WORDS = re.compile(r"\w+")
_NEGATED = re.compile(r"\b(?:never|do not|don'?t|must not|should not|not to|cannot|nobody|no one)\b")
_FORBIDDEN = re.compile(
    r"\b(?:never|do not|don'?t|must not|should not|may not|cannot|can'?t|not|avoid|refuse to|nobody may|"
    r"no one may|forbidden to)"
    r"\W+(?:(?:\w+ly|ever|ask \w+ to|to|be|try to) ){0,2}$"
)
_PROHIBITED = re.compile(
    r"\b(?:is|are) (?:\w+ly )?(?:not (?:allowed|permitted)|forbidden|prohibited|banned|blocked|disabled)\b"
)
_PROMPTS = re.compile(
    r"\b(?:prompt (?:recipes?|templates?|librar\w+|engineer\w+|designs?|patterns?|examples?|writing|snippets?)|"
    r"(?:in|of|for|into|start) (?:the|a|your|each|every|our|this) prompts?\b"
    r"|(?:good|better|useful|our|a|the) prompts? (?:for|that|is|was|to|starts?|begins?|reads?|works?)|few-shot|"
    r"tell the model|ask the model|"
    r"instruct the model|role-?play (?:exercise|training|session|scenario)s?|(?:exercise|workshop|training|lesson|"
    r"theat\w+|rehears\w+|mock (?:call|interview)))"
)
_CONDITION = re.compile(
    r"\b(?:unter \d|bis zu|hasta|menos de|inferior\w* a|jusqu|moins de|fino a|sotto i|abaixo de|ate \d|ponizej|"
    r"do \d|до \d|minder dan|onder de \d|tot \d)|\b(?:when|if|unless|until|once|after|before|while|where|only for|"
    r"in case|except|provided|below|under|up to|less than|"
    r"at most|smaller than|within|cuando|si|wenn|falls|quand|lorsque|se|quando|als)\b"
)


def sentences(text: str) -> list[str]:
    """*text* (folded) in pieces that a reader takes one at a time."""
    return [part for part in _SENTENCES.split(text) if part and part.strip()]


def without_mentions(text: str) -> str:
    """*text* (folded) without what it only speaks of: quotations inside a report."""

    def masked(found: re.Match[str]) -> str:
        before, after = text[: found.start()], text[found.end() :]
        frame = f"{before[-120:]} {after[:120]}"
        spoken_of = len(_WORDS.findall(frame)) >= 3 and _REPORTING.search(frame) and not _is_to_follow(before)
        return " \u2026 " if spoken_of else f"{_APART if before.rstrip()[-1:] not in _OPENS else ' '}{found.group()} "

    return _QUOTED.sub(masked, text)


def _is_to_follow(before: str) -> bool:
    """Whether *before* tells to do what the quotation after it says."""
    sentence = sentences(before)[-1:] or [""]
    return any(
        is_ordered(sentence[0], found.start()) for found in _FOLLOW.finditer(sentence[0])
    ) and not _NEGATED.search(sentence[0])


def is_negated(sentence: str, start: int) -> bool:
    """Whether what begins at *start* is forbidden."""
    return bool(_FORBIDDEN.search(sentence[:start]) or _PROHIBITED.search(sentence[start:]))


def is_english(sentence: str) -> bool:
    """Whether *sentence* is in English beyond doubt: its words look like those of its neighbours too often."""
    return sentence.isascii() and len(_ENGLISH.findall(sentence)) > 1


def speaks_of_prompts(text: str) -> bool:
    """Whether *text* is about how to write prompts."""
    return bool(_PROMPTS.search(text))


def speaks_of_security(text: str) -> bool:
    """Whether *text* is about attacks, so that it may name what they say."""
    return bool(_SECURITY.search(text))


def is_ordered(sentence: str, start: int) -> bool:
    """Whether what begins at *start* of *sentence* is said as an order."""
    before = sentence[:start]
    if _ORDERED.search(before):
        return True
    return bool(_JOINED.search(before)) and gives_order(sentence)


def gives_order(sentence: str) -> bool:
    """Whether *sentence* tells its reader to do something."""
    first = _FIRST.match(sentence)
    if first and first[1] in _VERBS:
        return True
    found = [*_AFTER_CONDITION.finditer(sentence), *_TELLS.finditer(sentence)]
    return any(one[1] in _VERBS for one in found)


def is_conditional(sentence: str) -> bool:
    """Whether *sentence* says under which circumstances it holds, as rules of a trade do."""
    return bool(_CONDITION.search(sentence))
