"""Own rules: what they find in any language, and what looks alike and must stay."""

import time

import pytest
from agent_memory.domain.recognisers import recognise

FOUND = [
    ("EMAIL", "write to <oda.holm+news@mail.example.co.uk>."),
    ("EMAIL", "\u8bf7\u8054\u7cfb<oda@example.com>\u8c22\u8c22"),
    ("EMAIL", "m\u00fcller: <j\u00f6rg.m\u00fcller@b\u00fccher.example>"),
    ("EMAIL", "https://example.org/u?mail=<oda%40example.org>&x=1"),
    ("EMAIL", "it is --<oda@example.org>"),
    ("EMAIL", "'<o'hara@example.org>'"),
    ("EMAIL", "x" * 300 + " <oda@example.org> " + "y" * 300),
    ("EMAIL", "<oda\uff20example.org>"),
    ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "to <GB82 WEST 1234 5698 7654 32> and not later"),
    ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "<nl91abna0417164300>"),
    ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "IBAN: <FR7630006000011234567890189>"),
    ("CREDIT_DEBIT_NUMBER", "paid by <4012 8888 8888 1881> today"),
    ("CREDIT_DEBIT_NUMBER", "in 2024 <378282246310005> was blocked"),
    ("CREDIT_DEBIT_NUMBER", "in 2024 <5555-5555-5555-4444>"),
    ("CREDIT_DEBIT_NUMBER", "my card number is <1234 5678 1234 5678>"),
    ("CREDIT_DEBIT_NUMBER", "<6011000990139424>,4"),
    ("CREDIT_DEBIT_NUMBER", "<3782\u00a0822463\u00a010005>"),
    ("SSN", "his is <219-09-9999>."),
    ("SSN", "SSN: <219099999>"),
    ("IP_ADDRESS", "from <203.0.113.77> at noon."),
    ("IP_ADDRESS", "from <2001:db8:0:1::8a2e> at noon"),
    ("MAC_ADDRESS", "host <00:1b:44:11:3a:b7>"),
    ("UK_NATIONAL_INSURANCE_NUMBER", "number <QQ 12 34 56 C>".replace("QQ", "AB")),
    ("DRIVER_ID", "My driver's license number is <H81-2299-0043>"),
    ("PASSPORT_NUMBER", "passport no. <X4512890>"),
    ("BANK_ACCOUNT_NUMBER", "account number: <0012345678>"),
    ("CREDIT_DEBIT_CVV", "cvv <123>"),
    ("PHONE", "<+44 20 7946 0991> is the office"),
    ("PHONE", "<(415) 555-2671> rang"),
    ("PHONE", "<415.555.2671 ext 12> rang"),
    ("PHONE", "<0049 30 901820> rang"),
    ("PHONE", "<06 12 34 56 78> is hers"),
    ("PHONE", "<030/12345678> in Berlin"),
    ("PHONE", "please call <555 0199> today"),
    ("PHONE", "Tel\u00e9fono: <612 345 678>"),
    ("PHONE", "reach me at <4155552671>"),
    ("PHONE", "Fax:\n<9 555 01 99>"),
    ("PHONE", "Oda Holm\n<374 555 163> office\nBergen"),
    ("PHONE", "what is your number? <374 555 163>"),
    ("PHONE", "You find me under <374 555 163>"),
    ("PHONE", "call \u260e xxxxxxxx <555-0166> yy"),
    ("PHONE", "<+1\u2011415\u2011555\u20112671>"),
    ("AWS_ACCESS_KEY", "key <AKIAIOSFODNN7EXAMPLE>"),
    ("AWS_SECRET_KEY", "aws_secret = <wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY>"),
    ("API_KEY", "push with <ghp_" + "a1B2" * 9 + ">"),
    ("API_KEY", "bot <xoxb-" + "123456789012-abcdefGHIJ" + ">"),
    ("API_KEY", "charge <sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc" + ">"),
    ("API_KEY", "Authorization: Bearer <abcDEF123456ghiJKL789>"),
    ("API_KEY", "jwt <eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl>"),
    ("API_KEY", "api_key=<9f8e7d6c5b4a3210>"),
    ("API_KEY", '{"access_token": "<tok-55aa66bb77>"}'),
    ("PASSWORD", "password: <Tr0ub4dor>"),
    ("PASSWORD", '{"password": "<correct horse battery>"}'),
    ("PASSWORD", "PGPASSWORD=<s3cr3tpw> psql"),
    ("PASSWORD", "the password is <hunter2!>"),
    ("PASSWORD", "postgres://<app:p4ss/../w>@db/x".replace("/../", "")),
    ("PRIVATE_KEY", "<-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----> end"),
    ("PRIVATE_KEY", "<-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0B\n" * 3 + "QUJD>\n"),
]


@pytest.mark.parametrize(("kind", "marked"), FOUND)
def test_an_identifier_is_found_whole_and_nothing_around_it(kind: str, marked: str) -> None:
    start, end = marked.index("<"), marked.rindex(">") - 1
    text = marked.replace("<", "", 1)
    text = text[:end] + text[end + 1 :]
    assert (kind, start, end) in {(s.type, s.start, s.end) for s in recognise(text)}
    covered = {at for s in recognise(text) for at in range(s.start, s.end)}
    assert covered >= set(range(start, end))
    assert not covered & {at for at in range(len(text)) if at < start or at >= end} or kind == "PASSWORD"


STAYS = [
    "Order 123-4567890-1234567 shipped.",
    "Order #W2378156 and item 1008292230",
    "invoice 20240517-0042 of 2024-05-17",
    "run r-20240517-103000 took 1715940000000 ms",
    "between 2019-2024 and on 17.05.2024 or 05/17/2024",
    "2024-05-17 10:30:00 HAT045 to JFK at 09:15-11:45",
    "costs $1,250.00, 1 250 000 EUR or 3.141592653589",
    "call order 4155552671 by its number of items: order 1234567",
    "order number 1234567, confirmation number: 12345678, membership number 123 456 789",
    "tracking id 9400111899 and case no 20240001",
    "120 300 450\n121 301 451",
    "version 10.0.19.45 and v1.2.3.4, numpy==1.26.4.1",
    "1.1.1.3 is the clause",
    "std::vector<int> a::b and 12:30:45",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "id 550e8400-e29b-41d4-a716-446655440000",
    "payment gift_card_3912 and credit_card_7815",
    "npm install @types/node, deploy@v2, numpy@1.26.4",
    "password: required, Password is incorrect, token: expired",
    "password=${DB_PASSWORD} and api_key=<your key here>",
    "tokens: 12345678 and total_tokens=987654321",
    "bearer of bad news",
    "reservation 4WQ150, flight HAT160, seat 12C",
    "4000000000000 rows were read",
    "Phone support is open. A flight to New York costs 300.",
]


@pytest.mark.parametrize("text", STAYS)
def test_what_only_looks_like_an_identifier_stays(text: str) -> None:
    assert [(s.type, text[s.start : s.end]) for s in recognise(text)] == []


@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 60_000,
        "a.a-" * 15_000,
        "1 " * 30_000,
        "1-" * 30_000,
        "@" * 30_000,
        ":" * 60_000,
        "a:" * 30_000,
        "-----BEGIN PRIVATE KEY-----" * 800,
        "secret " * 8_000,
        "password=" * 7_000,
        "eyJ" * 20_000,
        "(1" * 30_000,
        "AA11" * 15_000,
        "AA11 " * 12_000,
        "call " * 12_000,
        "://" * 20_000,
        "bearer " * 9_000,
        "\\n" * 20_000,
        "A" * 30_000 + "@",
        "passport " * 7_000,
        "driver license " * 4_000,
        "1.1." * 15_000,
    ],
    ids=lambda text: text[:16],
)
def test_hostile_text_costs_linear_time(hostile: str) -> None:
    before = time.process_time()
    recognise(hostile)
    assert time.process_time() - before < 1.5
