"""The cheap language guess: English and Spanish are told from the rest, and short texts from none."""

import pytest
from agent_memory.domain.language import guess_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Please move my booking to Friday and tell me what it costs.", "en"),
        ("Agent used find_booking, then changed the date.", "en"),
        ("Hola, quiero cambiar mi reserva para el viernes, por favor.", "es"),
        ("Bitte verschieben Sie die Buchung auf Freitag.", "other"),
        ("Je voudrais changer la date de mon billet pour vendredi.", "other"),
        ("Ik wil mijn boeking graag naar vrijdag verplaatsen, dat is beter voor ons.", "other"),
        ("\u4e88\u7d04\u3092\u91d1\u66dc\u65e5\u306b\u5909\u66f4\u3057\u3066\u304f\u3060\u3055\u3044", "other"),
        ("\u041f\u0435\u0440\u0435\u043d\u0435\u0441\u0438\u0442\u0435 \u0431\u0440\u043e\u043d\u044c", "other"),
        ("T\u00f4i mu\u1ed1n \u0111\u1ed5i ng\u00e0y c\u1ee7a v\u00e9 m\u00e1y bay sang th\u1ee9 s\u00e1u", "other"),
        ("Refund", "undecided"),
        ("", "undecided"),
        ("HTTP 500 500 500 {}", "undecided"),
        ('{"origin": "LAS", "destination": "SEA", "insurance": "no"}', "en"),
        ("Just posted a photo https://www.example.se/", "undecided"),
    ],
)
def test_the_guess(text: str, language: str) -> None:
    assert guess_language(text) == language


def test_one_foreign_name_does_not_make_a_text_foreign() -> None:
    assert (
        guess_language(
            "The agent called \u0391\u03bb\u03ad\u03be\u03b1\u03bd\u03b4\u03c1\u03bf\u03c2 and Szczepan \u0141ukasz for the refund."
        )
        == "en"
    )


def test_a_huge_text_is_judged_by_samples() -> None:
    assert guess_language("The booking was moved and the fee was paid. " * 20_000) == "en"
