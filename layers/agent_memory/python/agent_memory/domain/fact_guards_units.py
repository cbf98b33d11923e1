"""Units of measure, number words and the words that bound a number."""

import re
from fractions import Fraction

_TABLE = """
time 1/1000 ms msec millisecond milliseconds
time 1 s sec secs second seconds
time 60 min mins minute minutes
time 3600 h hr hrs hour hours
time 86400 day days
time 604800 week weeks wk wks
month 1 month months
month 3 quarter quarters
month 12 year years yr yrs
mass 1/1000 mg milligram milligrams
mass 1 g gram grams
mass 1000 kg kgs kilo kilos kilogram kilograms
mass 1000000 t ton tons tonne tonnes
mass 453592/1000 lb lbs pound pounds
mass 28349523/1000000 oz ounce ounces
length 1/1000 mm millimetre millimetres millimeter millimeters
length 1/100 cm centimetre centimetres centimeter centimeters
length 1 m metre metres meter meters
length 1000 km kilometre kilometres kilometer kilometers
length 3048/10000 ft foot feet
length 254/10000 inch inches
length 9144/10000 yard yards
length 1609344/1000 mile miles
volume 1/1000 ml millilitre millilitres milliliter milliliters
volume 1 l litre litres liter liters
volume 3785411784/1000000000 gallon gallons
data 1 byte bytes
data 1000 kb kilobyte kilobytes
data 1000000 mb megabyte megabytes
data 1000000000 gb gigabyte gigabytes
data 1000000000000 tb terabyte terabytes
data 1024 kib
data 1048576 mib
data 1073741824 gib
percent 1 % percent pct
usd 1 $ usd dollar dollars
usd 1/100 cent cents
eur 1 \u20ac eur euro euros
gbp 1 \u00a3 gbp
jpy 1 \u00a5 jpy yen
chf 1 chf francs
ratio 1 x times fold
celsius 1 \u00b0c celsius
fahrenheit 1 \u00b0f fahrenheit
power 1 w watt watts
power 1000 kw kilowatt kilowatts
energy 1 kwh
frequency 1 hz
frequency 1000 khz
frequency 1000000 mhz
frequency 1000000000 ghz
voltage 1 v volt volts
pressure 1 bar bars
pressure 6894757/100000000 psi
speed 1 km/h kmh kph
speed 1609344/1000000 mph
"""
UNITS: dict[str, tuple[str, Fraction]] = {
    name: (dimension, Fraction(factor))
    for line in _TABLE.split("\n")
    if line
    for dimension, factor, *names in [line.split()]
    for name in names
}
# One-letter units are letters of names as well, so they need a digit right before them or a plain end after them.
EVERY = {
    "hourly": ("time", Fraction(3600)),
    "daily": ("time", Fraction(86400)),
    "nightly": ("time", Fraction(86400)),
    "weekly": ("time", Fraction(604800)),
    "biweekly": ("time", Fraction(1209600)),
    "fortnightly": ("time", Fraction(1209600)),
    "monthly": ("month", Fraction(1)),
    "quarterly": ("month", Fraction(3)),
    "yearly": ("month", Fraction(12)),
    "annually": ("month", Fraction(12)),
    "annual": ("month", Fraction(12)),
}
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
SMALL = {word: value for value, word in enumerate(_ONES)} | {word: 20 + 10 * step for step, word in enumerate(_TENS)}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "dozen": 12}
ORDINALS = {
    word: value + 1
    for value, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
    )
}
_WORDS = "|".join(sorted((*SMALL, *SCALES), key=len, reverse=True))
NUMBER_WORDS = re.compile(rf"(?<!\d )\b(?:(?:a )?(?:{_WORDS}))(?:(?:[ -]| and )(?:{_WORDS}))*\b", re.I)


def spelled(words: str) -> int:
    """The value of a number written in words."""
    total = current = 0
    for word in re.findall(r"[a-z]+", words.lower()):
        if word in SMALL:
            current += SMALL[word]
        elif word in SCALES:
            scale = SCALES[word]
            current = max(current, 1) * scale
            if scale >= 1000:
                total, current = total + current, 0
    return total + current


# How a bound reads. Order matters: the longer phrase first, because "no more than" holds "more than".
BOUNDS = tuple(
    (re.compile(rf"\b(?:{pattern})\b|{symbols}" if symbols else rf"\b(?:{pattern})\b", re.I), f" {mark} ")
    for pattern, symbols, mark in (
        ("no more than|(?:not|never)(?: \\w+){0,2} more than|at most|up to|no later than|not later than|not exceed(?:ing)?|never exceeds?|max(?:imum)?(?: of)?|no longer than|"
         "no higher than|no fewer and no more than|or less|or fewer|or earlier|within|(?:is |are )?(?:capped|limited) (?:at|to)|ceiling of|(?:upper )?limit (?:of|is)|"
         "(?:not|never) (?:go(?:es)? )?(?:above|over|beyond)", "≤|<=", "\u2264"),
        ("no less than|no fewer than|(?:not|never)(?: \\w+){0,2} (?:less|fewer) than|at least|minimum(?: of)?|min of|no earlier than|not earlier than|or more|or later|and up|"
         "upwards of|(?:not|never) (?:go(?:es)? )?(?:below|under)", "≥|>=", "\u2265"),
        ("(?:more|greater|heavier|longer|larger|bigger|higher|taller|older|later|wider|deeper) than|over|above|exceed(?:s|ing)?|beyond", "(?<![-=<])>(?!=)", "\u226b"),
        ("(?:less|fewer|lighter|shorter|smaller|lower|younger|earlier|cheaper|narrower) than|under|below", "<(?!=)", "\u226a"),
        ("about|around|approximately|approx|roughly|circa|nearly|almost", "~|≈", "\u2248"),
        ("exactly|precisely", "", "\u2261"),
    )
)  # fmt: skip
UPPER, LOWER = frozenset("\u2264\u226a"), frozenset("\u2265\u226b")
