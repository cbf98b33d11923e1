"""Own recognisers of structured identifiers and secrets: any language, no model, linear time.

The detector of names may be down, refuse a language or miss a format; these always run.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent_memory.domain.introductions import introduced_names
from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.phone_numbers import phone_numbers
from agent_memory.domain.secret_recognisers import secrets

SCORE = 1.0

_IBAN_COUNTRIES = (
    "AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BI:27 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DJ:27 "
    "DK:18 DO:28 EE:20 EG:29 ES:24 FI:18 FK:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HN:28 HR:21 HU:28 "
    "IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 "
    "MK:19 MN:20 MR:27 MT:31 MU:30 NI:28 NL:18 NO:15 OM:23 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 RU:33 SA:24 "
    "SC:31 SD:18 SE:24 SI:19 SK:24 SM:27 SO:23 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20 YE:30 "
)
_IBAN_LENGTHS = {entry[:2]: int(entry[3:]) for entry in _IBAN_COUNTRIES.split()}

# Letters of addresses: Latin, Greek and Cyrillic. Unsegmented scripts are left out, because there
# an address stands directly beside words of the sentence.
_LETTER = "A-Za-z0-9\u00c0-\u024f\u0370-\u03ff\u0400-\u052f"
_LOCAL_PART = re.compile(rf"[{_LETTER}._%+'-]*[{_LETTER}._%+-]$")
_DOMAIN = re.compile(
    rf"(?:[{_LETTER}](?:[{_LETTER}-]{{0,62}})\.)+[A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u052f]{{2,24}}"
)
_AT = re.compile(r"@|%40")
# The longest piece before an "@" that is looked at. The standard allows 64.
_LOCAL_LIMIT = 128

_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}(?<![ -])")
# Ahead and not consuming: a year before a card number must not hide it.
_CARD = re.compile(
    r"(?<![A-Za-z0-9])(?<!\d\.)(?<![0-9A-Fa-f]{4}-)"
    r"(?=(\d{4}([ .-])\d{4}\2\d{4}\2\d{4}(?:\2\d{1,3})?|\d{4}([ .-])\d{6}\3\d{4,5}|\d{12,19})(?![A-Za-z0-9])(?!\.\d))"
)
_CARD_ISSUER = re.compile(r"3[04-9]|35|2131|1800|4|5|6|2[2-7]")
_CARD_CONTEXT = re.compile(r"(?i)\b(?:card|visa|mastercard|amex|tarjeta|karte|kreditkarte|carte)\b[^\n\d]{0,30}$")
_SSN = re.compile(r"(?<![\w-])(\d{3})-(\d{2})-(\d{4})(?![\w]|-\d)")
_SSN_LABELLED = re.compile(r"(?i)\b(?:ssn|social security)\b[^\n\d]{0,30}(\d{3}[ -.]?\d{2}[ -.]?\d{4})(?!\d)")
_IPV4 = re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])")
_VERSION = re.compile(r"(?i)(?:\bv|\bversion|\brelease|\bbuild|==|>=|<=|~=)\s*$")
# "1.1.1.3" at the start of a line numbers a clause.
_CLAUSE = re.compile(r"\d\.\d\.\d\.\d")
_MAC = re.compile(r"(?<![\w:-])[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4}(?![\w:-])")
_NINO = re.compile(r"(?<!\w)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)")

# A label and what follows it. The value must hold a digit; labels are words people and forms use.
_VALUE = r"(?![A-Za-z0-9])(?:\s*(?:number|num|no\.?|nr\.?|id|code|#))?\s*(?:is|was|ist|es|:|=|-|\()?\s*[\"']?"
_LABELLED = tuple(
    (type_, re.compile(rf"(?i)\b(?:{label}){_VALUE}({value})(?![A-Za-z0-9])"))
    for type_, label, value in (
        (
            "DRIVER_ID",
            r"driv(?:er|ing)(?:['\u2019]?s)? ?licen[cs]e|driver id|dl|permiso de conducir|f\u00fchrerschein",
            r"(?=[A-Z0-9-]{0,18}\d{2})[A-Z0-9](?:-?[A-Z0-9]){4,19}",
        ),
        ("PASSPORT_NUMBER", r"passport|pasaporte|reisepass", r"(?=[A-Z]{0,6}\d{3})[A-Z0-9]{6,9}"),
        ("BANK_ACCOUNT_NUMBER", r"(?:bank )?account (?:number|no\.?)|n\u00famero de cuenta|kontonummer", r"\d{6,17}"),
        ("BANK_ROUTING", r"routing|aba", r"\d{9}"),
        ("CREDIT_DEBIT_CVV", r"cvv2?|cvc2?|security code", r"\d{3,4}"),
        ("PIN", r"pin(?: code)?", r"\d{4,6}"),
        ("UK_NATIONAL_HEALTH_SERVICE_NUMBER", r"nhs", r"\d{3}[ -]?\d{3}[ -]?\d{4}"),
        (
            "INTERNATIONAL_BANK_ACCOUNT_NUMBER",
            r"iban",
            r"[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?",
        ),
    )
)


# Characters that only look different, each replaced by one character so that offsets hold.
_PLAIN: dict[int, int | str] = {
    **{0xFF01 + i: 0x21 + i for i in range(94)},
    **dict.fromkeys((0xA0, 0x2007, 0x2009, 0x202F, 0x3000), " "),
    **dict.fromkeys(range(0x2010, 0x2016), "-"),
    0x2212: "-",
}


class Found(NamedTuple):
    """One finding before it becomes a span: type, start, end."""

    type: str
    start: int
    end: int


def recognise(text: str) -> list[DetectedSpan]:
    """All structured identifiers and secrets in *text*, in no order, overlaps included."""
    plain = text.translate(_PLAIN)
    found = [Found(*hit) for finder in _FINDERS for hit in finder(plain)]
    return [DetectedSpan(type=hit.type, start=hit.start, end=hit.end, score=SCORE) for hit in found]


def luhn_valid(digits: str) -> bool:
    """Whether the check digit of a card number fits."""
    values = [int(c) for c in reversed(digits)]
    return (sum(values[0::2]) + sum(sum(divmod(2 * v, 10)) for v in values[1::2])) % 10 == 0


def iban_valid(iban: str) -> bool:
    """Whether the two check digits of an IBAN without separators fit (ISO 7064, modulo 97)."""
    turned = iban[4:] + iban[:4]
    return int("".join(str(int(c, 36)) for c in turned)) % 97 == 1


def _emails(text: str) -> Iterator[tuple[str, int, int]]:
    for at in _AT.finditer(text):
        # Backwards from the "@" within a window: a pattern over the whole text is quadratic on long tokens.
        before = text[max(0, at.start() - _LOCAL_LIMIT) : at.start()]
        local, domain = _LOCAL_PART.search(before), _DOMAIN.match(text, at.end())
        if local and domain:
            # A quote or dash that stands before an address is not part of it.
            opening = len(local.group()) - len(local.group().lstrip("'-."))
            yield "EMAIL", at.start() - len(local.group()) + opening, domain.end()


def _ibans(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match.group()[:2].upper())
        end = _end_of(text, match.start(), match.end(), length) if length else None
        if end and iban_valid(re.sub("[ -]", "", text[match.start() : end])):
            yield "INTERNATIONAL_BANK_ACCOUNT_NUMBER", match.start(), end


def _end_of(text: str, start: int, end: int, length: int) -> int | None:
    """Where the first *length* characters other than separators end."""
    seen = 0
    for at in range(start, end):
        seen += text[at] not in " -"
        if seen == length:
            return at + 1
    return None


def _cards(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _CARD.finditer(text):
        digits = re.sub("[ .-]", "", match.group(1))
        said = _CARD_CONTEXT.search(text[max(0, match.start() - 50) : match.start()])
        if said or (_CARD_ISSUER.match(digits) and luhn_valid(digits)):
            yield "CREDIT_DEBIT_NUMBER", match.start(1), match.end(1)


def _social_security(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _SSN.finditer(text):
        if match.group(1) != "000":
            yield "SSN", match.start(), match.end()
    for match in _SSN_LABELLED.finditer(text):
        yield "SSN", match.start(1), match.end(1)


def _ip_addresses(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _IPV4.finditer(text):
        before = text[max(0, match.start() - 12) : match.start()]
        heading = _CLAUSE.fullmatch(match.group()) and (not before.strip() or before.rstrip(" \t").endswith("\n"))
        if not heading and not _VERSION.search(before):
            yield "IP_ADDRESS", match.start(), match.end()
    for match in _IPV6.finditer(text):
        if _is_ipv6(match.group()):
            yield "IP_ADDRESS", match.start(), match.end()


def _is_ipv6(candidate: str) -> bool:
    """An address, and not the scope operator of a programming language or a time."""
    try:
        ipaddress.IPv6Address(candidate)
    except ValueError:
        return False
    return len(candidate) >= len("fe80::1") and any(c.isdigit() for c in candidate)


def _shapes(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _MAC.finditer(text):
        yield "MAC_ADDRESS", match.start(), match.end()
    for match in _NINO.finditer(text):
        yield "UK_NATIONAL_INSURANCE_NUMBER", match.start(), match.end()
    for type_, pattern in _LABELLED:
        for match in pattern.finditer(text):
            yield type_, match.start(1), match.end(1)


def _phones(text: str) -> Iterator[tuple[str, int, int]]:
    for start, end in phone_numbers(text):
        yield "PHONE", start, end


_FINDERS: tuple[Callable[[str], Iterator[tuple[str, int, int]]], ...] = (
    _emails,
    _ibans,
    _cards,
    _social_security,
    _ip_addresses,
    _shapes,
    _phones,
    secrets,
    introduced_names,
)
