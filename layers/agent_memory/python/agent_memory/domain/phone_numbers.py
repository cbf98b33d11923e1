"""Telephone numbers in free text, told from dates, money, versions and order numbers."""

import re
from collections.abc import Iterator

_MIN_DIGITS, _MAX_DIGITS = 7, 15
_EXTENSION = r"(?:\s?(?:x|ext\.?|extension)\s?\d{1,6})?"

# Digits in groups, as people write them; everything below is decided on such a candidate.
_CANDIDATE = re.compile(
    rf"(?<![\w+])(?<![\d$€£][.,:/])(?<![$€£#])"
    rf"(?:\+\s?)?(?:\(\+?\d{{1,4}}\)|\d)(?:[ \t./-]{{0,2}}(?:\(\d{{1,4}}\)|\d)){{5,16}}"
    rf"{_EXTENSION}(?![\w%])(?![.,:/-]\d)"
)

# Shapes that are a telephone number whatever stands before them.
_SURE = tuple(
    re.compile(pattern + _EXTENSION)
    for pattern in (
        r"\+\s?\d[\d \t.()/-]{6,22}",
        r"00[1-9]\d{0,2}[ .-]\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}",
        r"(?:1[ .-]?)?(?:\([2-9]\d\d\)[ .-]?|[2-9]\d\d([ .-]))\d{3}[ .-]\d{4}",
        r"\(0?\d{1,4}\)[ .-]?\d{2,4}(?:[ .-]?\d{2,4}){1,3}",
        r"0\d{1,4}(?:[ .-]\d{2,4}){2,4}",
        r"0\d{2,4}[ /-]\d{6,8}",
        r"0\d([ .-])\d\d(?:\1\d\d){3}",
    )
)
_NOT_A_NUMBER = re.compile(
    r"(?:19|20)\d\d([-/.])(?:0?\d|1[0-2])\1[0-3]?\d(?: [0-2]?\d(?:[ .]\d\d){0,2})?"  # 2024-05-17, and a time after it
    r"|[0-3]?\d([-/.])[0-3]?\d\2(?:19|20)?\d\d"  # 17.05.2024
    r"|(?:19|20)\d\d\s?[-/]\s?(?:19|20)\d\d"  # 2019-2024
    r"|(?:19|20)\d{6}[- ]?\d{4,6}"  # 20240517-103000
    r"|\d{1,3}(?:\.\d{1,3}){3}"  # an IP address or a version
    r"|\d+\.\d+"  # a decimal number
)

_SAID = (
    r"phones?|tele(?:ph|f)on\w*|tel|teléfono|mobile|móvil|handy|mobil|cell(?:phone)?s?|fax|call(?:ed|s|ing)?|ring|dial\w*|"
    r"reach(?:ed|able)?|contact\w*|text(?:ed)?|sms|whatsapp|desk|landline|hotline|voicemail|pager|answering|registered|"
    r"messages? to|(?:me|us|him|her|them) (?:at|on|under)|llám\w+|llam\w+|anruf\w*|appel\w*|celular|ph(?=[.:])|"
    r"(?:my|your|his|her|their|our|the|this|that|new|old|correct) numbers?|mi número|mon numéro|meine nummer"
)
_OTHER = (
    r"(?:order|invoice|ticket|case|flight|booking|reservation|confirmation|tracking|item|product|part|sku|serial|model|"
    r"version|port|error|code|run|step|account|amount|total|price|cost|fee|balance|ref|reference|record|row|line|page|"
    r"transaction|payment|policy|claim|isbn|asin|po|zip|postcode|build|batch|job|process|pid|bytes|tokens?|chars?|size|"
    r"count|timestamp|epoch|user|customer|member\w*|loyalty|registration|licen[cs]e|shipment|parcel|package|device|imei|"
    r"certificate|voucher|gift|points|miles|revenue|bestellung|rechnung|pedido|factura|commande|ids?)"
    r"(?:[ _-](?:numbers?|ids?|no))?"
)
_CONTEXT = re.compile(rf"(?i)(?<![^\W\d_])(?:(?P<said>{_SAID})|(?P<other>{_OTHER}))(?![^\W\d_])")
_CONTEXT_WINDOW = 60
# "555 0199 (office)", as the last lines of a letter have it.
_SAID_AFTER = re.compile(
    r"(?i)[ \t]*[(\[,-]?[ \t]*(?:office|fax|mobile|cell|phone|home|work|tel|landline|direct|desk)\b"
)
_CARD_WINDOW = 200


def phone_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each telephone number."""
    for match in _CANDIDATE.finditer(text):
        written = match.group()
        digits = sum(c.isdigit() for c in re.split("x|e", written, maxsplit=1)[0])
        if not _MIN_DIGITS <= digits <= _MAX_DIGITS or _NOT_A_NUMBER.fullmatch(written):
            continue
        if any(shape.fullmatch(written) for shape in _SURE) or _said_to_be_one(text, *match.span()):
            yield match.start(), match.end()


def _said_to_be_one(text: str, start: int, end: int) -> bool:
    """Whether a word beside the number speaks of telephones, or it stands alone on a line near an e-mail address."""
    words = list(_CONTEXT.finditer(text[max(0, start - _CONTEXT_WINDOW) : start]))
    if words:
        return words[-1].group("said") is not None
    if _SAID_AFTER.match(text, end):
        return True
    alone = text[max(0, start - 1) : start] in ("", "\n") and text[end : end + 1] in ("", "\n", "\r")
    return alone and "@" in text[max(0, start - _CARD_WINDOW) : end + _CARD_WINDOW]
