"""Credentials in free text: keys, tokens, passwords, private keys, addresses that carry a password."""

import re
from collections.abc import Iterator

_TOKEN_SHAPES = "|".join(
    (
        r"gh[pousr]_[A-Za-z0-9]{20,255}",
        r"github_pat_[A-Za-z0-9_]{20,255}",
        r"gl(?:pat|dt|rt|ptt|cbt)-[\w-]{16,255}",
        r"xox[abeoprs]-[A-Za-z0-9-]{10,255}",
        r"xapp-[A-Za-z0-9-]{10,255}",
        r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}",
        r"whsec_[A-Za-z0-9+/=]{16,255}",
        r"sk-[A-Za-z0-9_-]{20,255}",
        r"AIza[A-Za-z0-9_-]{30,60}",
        r"ya29\.[A-Za-z0-9._-]{20,500}",
        r"GOCSPX-[A-Za-z0-9_-]{20,60}",
        r"hf_[A-Za-z0-9]{25,60}",
        r"npm_[A-Za-z0-9]{30,60}",
        r"pypi-[A-Za-z0-9_-]{40,500}",
        r"SG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{30,80}",
        r"(?:SK|AC)[0-9a-f]{32}",
        r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
        r"dop_v1_[a-f0-9]{64}",
        r"sq0(?:atp|csp)-[A-Za-z0-9_-]{20,60}",
        r"dapi[a-f0-9]{32}",
        r"lin_api_[A-Za-z0-9]{30,60}",
        r"(?:hvs|hvb)\.[A-Za-z0-9_-]{20,255}",
        r"eyJ[A-Za-z0-9_-]{8,8000}\.eyJ[A-Za-z0-9_-]{4,16000}(?:\.[A-Za-z0-9_-]{0,2000})?",
    )
)
_TOKEN = re.compile(rf"(?<![A-Za-z0-9])(?:{_TOKEN_SHAPES})(?![A-Za-z0-9])")
_WEBHOOK = re.compile(r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{16,255})")
_AWS_ACCESS_KEY = re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA|AIDA|AROA|AGPA)[A-Z0-9]{16}(?![A-Za-z0-9])")
_AWS_SECRET_KEY = re.compile(r"(?i:secret)[^\n]{0,40}?(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]{0,20000}-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    # A block that was cut before its end: its lines of base64.
    r"|(?:(?:\\n|\\r|\s){0,4}[A-Za-z0-9+/]{16,20000}={0,2}){0,400}(?:(?:\\n|\\r|\s){1,4}[A-Za-z0-9+/]{1,16}={0,2}(?=\s|\Z))?)"
)
_BEARER = re.compile(r"(?i)\bbearer\s+(?=[A-Za-z._~+/-]*\d)([A-Za-z0-9._~+/-]{16,4000}=*)")
_BASIC = re.compile(r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic|token|digest)\s+([A-Za-z0-9._~+/-]{8,4000}=*)")
_URL_CREDENTIALS = re.compile(r"(?<=://)([^\s/@:\"'<>]{0,255}:[^\s/\"'<>]{1,255})(?=@[A-Za-z0-9\[.-])")

_QUOTED = r"\"(?P<double>[^\"\n]{3,500})\"|'(?P<single>[^'\n]{3,500})'|\\\"(?P<escaped>[^\"\\\n]{3,500})\\\""
_SEPARATOR = r"(?:\\?[\"'])?\s{0,3}(?P<sign>:=|=>|=|:)\s{0,3}"
_PASSWORD = re.compile(
    rf"(?i)(?:password|passwd|passphrase|passcode|contrase\u00f1a|passwort|kennwort|(?<![a-z])pwd|(?<![a-z])pass){_SEPARATOR}"
    rf"(?:{_QUOTED}|(?P<bare>[^\s\"'<>,;&]{{3,200}}))"
)
_SPOKEN_PASSWORD = re.compile(
    r"(?i)\b(?:password|passphrase|passcode|contrase\u00f1a|passwort)\s+(?:is|was|to|es|ist|lautet)\s+[\"']?"
    r"(?P<bare>(?=[^\s\"']{0,60}[\d!#$%^&*])[^\s\"'<>,;]{4,200})"
)
_KEY = re.compile(
    r"(?i)(?:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret[_-]?(?:access[_-]?)?key|client[_-]?secret|account[_-]?key|"
    r"shared[_-]?access[_-]?key|private[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|id[_-]?token|"
    r"session[_-]?token|security[_-]?token|bearer[_-]?token|webhook[_-]?secret|x-api-key|(?<![a-z])token|(?<![a-z])secret|"
    rf"credential|encryption[_-]?key|signing[_-]?key){_SEPARATOR}"
    rf"(?:{_QUOTED}|(?P<bare>[^\s\"'<>,;&]{{8,4000}}))"
)
# Words and stand-ins that follow "password:" without being one.
_NOT_A_SECRET = re.compile(
    r"(?i)\$\{?\w+\}?|\{\{?[^}]*\}?\}|<[^>]*>|\*+|x{3,}|\.{3}|%\w+%|os\.\S*|env\S*|process\.env\S*|getpass\S*|input\(\S*|"
    r"none|null|nil|true|false|undefined|required|optional|missing|invalid|incorrect|wrong|expired|empty|unknown|"
    r"must|should|needs?|the|your|please|and|not|n/a|reset|changed?|str(?:ing)?|text|hidden|masked|redacted"
)


def secrets(text: str) -> Iterator[tuple[str, int, int]]:
    """Type, start and end of each credential; of "name=value" only the value."""
    for type_, pattern, group in _FIXED:
        for match in pattern.finditer(text):
            yield type_, match.start(group), match.end(group)
    for pattern in (_PASSWORD, _SPOKEN_PASSWORD):
        for match in pattern.finditer(text):
            start, end = _value(match)
            if not _NOT_A_SECRET.fullmatch(text[start:end].rstrip(".!?)]")):
                yield "PASSWORD", start, end
    for match in _KEY.finditer(text):
        start, end = _value(match)
        if _looks_generated(text[start:end]):
            yield "API_KEY", start, end


_FIXED = (
    ("API_KEY", _TOKEN, 0),
    ("API_KEY", _WEBHOOK, 1),
    ("API_KEY", _BEARER, 1),
    ("API_KEY", _BASIC, 1),
    ("AWS_ACCESS_KEY", _AWS_ACCESS_KEY, 0),
    ("AWS_SECRET_KEY", _AWS_SECRET_KEY, 1),
    ("PRIVATE_KEY", _PRIVATE_KEY, 0),
    ("PASSWORD", _URL_CREDENTIALS, 1),
)


def _value(match: re.Match[str]) -> tuple[int, int]:
    name = next(name for name, value in match.groupdict().items() if value is not None and name != "sign")
    return match.span(name)


def _looks_generated(value: str) -> bool:
    """Eight characters or more with a digit in them: "token: expired" is a sentence, not a token."""
    return len(value) >= 8 and any(c.isdigit() for c in value) and not _NOT_A_SECRET.fullmatch(value)
