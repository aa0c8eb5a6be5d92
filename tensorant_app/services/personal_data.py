"""Finds personal data in a text: that it is there and of which kind, never what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import phonenumbers
from stdnum import iban

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.safety import holds_card

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Za-z0-9])")
_DIGITS = re.compile(r"[0-9](?:[^0-9]{0,3}[0-9]){6}")
_PHONE_BEGINS = re.compile(r"[+\uff0b][ (]{0,2}[0-9]")
_PHONE_LENGTH = 40
"""Characters that a number with all its separators takes at most."""


def find_personal_data(text: str) -> Iterator[tuple[NoticeCode, str]]:
    """E-mail addresses, telephone numbers with their country's code, cards and bank accounts with right check digits."""
    if "@" in text and _EMAIL.search(text):
        yield NoticeCode.EMAIL, "holds an e-mail address."
    if not _DIGITS.search(text):
        return
    if "+" in text and _holds_phone(text):
        yield NoticeCode.PHONE, "holds a telephone number."
    if holds_card(text):
        yield NoticeCode.PAYMENT_CARD, "holds a payment card number."
    if any(_is_iban(found[0]) for found in _IBAN.finditer(text)):
        yield NoticeCode.IBAN, "holds a bank account number (IBAN)."


def _holds_phone(text: str) -> bool:
    """Looked for where a plus stands before a digit, so that a long text of digits takes no long time."""
    for begin in _PHONE_BEGINS.finditer(text):
        piece = text[begin.start() : begin.start() + _PHONE_LENGTH]
        if any(phonenumbers.PhoneNumberMatcher(piece, None, max_tries=3)):
            return True
    return False


def _is_iban(text: str) -> bool:
    """A word may follow the number after a space, so that shorter beginnings are tried as well."""
    groups = re.split("[ -]", text)
    return any(iban.is_valid("".join(groups[:n])) for n in range(len(groups), 0, -1))
