"""Personal data is found where it is, and ordinary text is left alone."""

from __future__ import annotations

import time

import pytest

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.services.personal_data import find_personal_data

FOUND = {
    "Write to mara.lind+shop@mail.example.org.": NoticeCode.EMAIL,
    "<m@example.org>": NoticeCode.EMAIL,
    "Call +44 20 7946 0958 now": NoticeCode.PHONE,
    "Tel.:+49 (0)30 90182-0": NoticeCode.PHONE,
    "Card 5555 5555 5555 4444, thanks": NoticeCode.PAYMENT_CARD,
    "IBAN DE89 3704 0044 0532 0130 00, reference X": NoticeCode.IBAN,
    "IBAN DE89370400440532013000": NoticeCode.IBAN,
    "mail: max@m\u00fcnchen.example": NoticeCode.EMAIL,
    "mail: max@mu\u0308nchen.example": NoticeCode.EMAIL,
    "max\uff20example.org": NoticeCode.EMAIL,
    "https://example.org/?email=max@example.org": NoticeCode.EMAIL,
    "call 0049 30 901820": NoticeCode.PHONE,
    "call \uff0b49 30 901820": NoticeCode.PHONE,
    "Karte 4111\u202f1111\u202f1111\u202f1111": NoticeCode.PAYMENT_CARD,
    "de89370400440532013000": NoticeCode.IBAN,
    "IBANDE89370400440532013000": NoticeCode.IBAN,
    "DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000 has come": NoticeCode.IBAN,
    "IBAN FR14 2004 1010 0505 0001 3M02 606 PAID": NoticeCode.IBAN,
}
LEFT = [
    "",
    "a @ b, user@host, @mara, 3 @ 4.50",
    "1 + 2 = 3, +5 %, 2026-11-30, 12:30",
    "Order 5555 5555 5555 4445",
    "IBAN DE88 3704 0044 0532 0130 00",
    "The number is 0800 123 456",
    "x += 1234567890",
    "2 + 49 30 901820",
    "order 0041234567890",
    "follow @foo@mastodon.social",
    "https://user:pw@host.example.com/a",
    "git clone git@github.com:org/repo.git",
    "scp a max@host.example.com:work/a",
]


@pytest.mark.parametrize("text", FOUND)
def test_it_is_found_and_not_repeated(text: str) -> None:
    found = list(find_personal_data(text))

    assert [code for code, _ in found] == [FOUND[text]]
    assert not any(
        piece in sentence for _, sentence in found for piece in text.split() if len(piece) > 3 and piece != "IBAN"
    )


@pytest.mark.parametrize("text", LEFT)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert list(find_personal_data(text)) == []


@pytest.mark.parametrize(
    "piece",
    ["+1 ", "+", "1", "a@", "a.", "@a.", "DE89 ", "A1 ", "+49 30 90182 ", "1234 ", "0049 ", "a@b.co:", "://a:b@c.de "],
)
def test_no_text_takes_long(piece: str) -> None:
    started = time.process_time()

    list(find_personal_data(piece * (200_000 // len(piece))))

    assert time.process_time() - started < 5
