"""A cheap guess of the language of a text: its script, its small words. Good enough to pick a detector."""

import re
import unicodedata
from collections import Counter
from typing import Literal

Language = Literal["en", "es", "other", "undecided"]

# The commonest small words. Those that two languages share count for both, so they decide nothing.
_SMALL_WORDS = {
    "en": "the no and of to in is that it for was on are with as be this have from or had by not but what all were "
    "when we there can an your which if do will how they i you my me he she his her has at please would could want "
    "need about",
    "es": "el la de que y en un una ser se no los las por con su para como está pero más lo del al me mi tu es fue "
    "ha cuando donde quien desde todo nos cliente puede tiene sobre esta este hola gracias quiero necesito sin",
    "de": "der die das und ist von zu den mit für auf nicht ein eine dem des im an auch als bitte sie ich wir er es "
    "haben werden wurde sich bei nach oder aber wenn mein ihre kann noch über kunde zum zur vom sind",
    "fr": "le la les de des et est un une du que qui dans pour pas sur au avec ce il elle je nous vous ne plus par "
    "sont mais comme aux cette mon ses a été être bonjour merci client votre leur sans",
    "it": "il lo la di che e un una per non sono con da del della dei si come più ma ha al alla nel questo anche io "
    "mi ci le gli essere grazie cliente suo sua stato",
    "pt": "o a os as de que e um uma para não com por em do da dos das no na se mais como foi ao ele ela eu você seu "
    "sua está obrigado cliente pelo pela tem ser",
    "nl": "de het een en van ik je dat is niet in op te zijn met voor er aan maar om hem naar ook als bij nog wel "
    "heb wordt deze u uw kan klant door graag",
    "sv": "och att det som en är på av för med den till inte har de ett om jag ni kan var vi från kund",
    "da": "og i at det er en til på som med for af den der ikke de har et jeg du vi kan var fra kunde hvis",
    "fi": "ja on ei että se oli hän mutta ovat kun niin myös tai sen minä olen asiakas kanssa",
    "pl": "i w nie na się z do to że jest o jak ale za co od po dla tak ma czy przez klient proszę jego",
    "cs": "a v se na je to že s z do o jako za by ale pro jsem jsou od po tak byl zákazník prosím jeho",
    "hu": "a az és hogy nem is egy van ez csak meg de ha már mint volt kérem vagy azért ügyfél",
    "ro": "și de la în nu este un o cu pe pentru mai din care să se fi au fost client vă rog",
    "tr": "ve bir bu da de için ile çok ne var daha gibi ama olarak sonra müşteri lütfen benim olan",
    "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada saya ada juga pelanggan tolong kami",
    "vi": "và của là có trong không cho một được các với này tôi khách hàng",
}
_LANGUAGES_OF = {
    word: tuple(code for code, words in _SMALL_WORDS.items() if word in words.split())
    for words in _SMALL_WORDS.values()
    for word in words.split()
}
# Single letters are initials or the "e" of "e-mail" as often as words, and web addresses are in no language.
_WORD = re.compile(r"(?<![\w'-])[^\W\d_]{2,}(?![\w-])")
_ADDRESS = re.compile(r"@|://|www\.")
# Enough words to decide; a text of 900 KB needs no more than its beginning, middle and end.
_SAMPLE = 4_000
# Of the words of running text at least this share is small words; less is names.
_SHARE = 0.1
_ENOUGH = 2
_FOREIGN_LETTER = re.compile("[^\\x00-\\x7fáéíóúüñ]")
_FOREIGN_SHARE = 0.3
_FEW_WORDS = 6


def guess_language(text: str) -> Language:
    """English, Spanish, some other language, or too little evidence to say."""
    # Words in capitals are codes: the airport LAS is not an article.
    prose = " ".join(piece for piece in _sample(text).split() if not _ADDRESS.search(piece))
    found = _WORD.findall(prose)
    words = [word.lower() for word in found if not word.isupper() or not word.isascii()]
    if _mostly_other_script(words):
        return "other"
    # Different words, not all of them: "no" said ten times is no more Spanish than once.
    seen = Counter(code for word in set(words) for code in _LANGUAGES_OF.get(word, ()))
    supported: Language = "es" if seen["es"] > seen["en"] else "en"
    best = max(seen.values(), default=0)
    if supported == "en" and seen["en"] == best and best:
        return "en"
    if best < _ENOUGH or best < _SHARE * len(set(words)):
        return "other" if _foreign_letters(set(words)) else "undecided"
    return supported if seen[supported] == best else "other"


def _foreign_letters(words: set[str]) -> bool:
    """Whether too many words hold letters that neither English nor Spanish has for these to be names only."""
    foreign = sum(1 for word in words if _FOREIGN_LETTER.search(word))
    return len(words) >= _FEW_WORDS and foreign >= _FOREIGN_SHARE * len(words)


def _sample(text: str) -> str:
    if len(text) <= 3 * _SAMPLE:
        return text
    middle = len(text) // 2
    return " ".join((text[:_SAMPLE], text[middle : middle + _SAMPLE], text[-_SAMPLE:]))


def _mostly_other_script(words: list[str]) -> bool:
    """Whether more than half of the letters are not Latin. One Greek name in an English text is not that."""
    letters = Counter("LATIN" in unicodedata.name(c, "") for word in words for c in word)
    return letters[False] > letters[True]
