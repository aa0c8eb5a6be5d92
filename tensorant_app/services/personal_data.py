"""Finds personal data in a text: that it is there and of which kind, never what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import phonenumbers
from stdnum import iban

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.safety import holds_card

_EMAIL = re.compile(r"(?<![\w.+@-])([\w.+-]{1,64})[@\uff20](?:[\w\u0300-\u036f-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_IBAN = re.compile(
    r"(?<![A-Za-z0-9])(?:iban)?([a-z]{2}[0-9]{2}(?:[ \u00a0\u202f-]?[a-z0-9]){11,30})(?![A-Za-z0-9])", re.IGNORECASE
)
_IBAN_GROUPS = re.compile("[ \u00a0\u202f-]")
_DIGITS = re.compile(r"[0-9](?:[^0-9]{0,3}[0-9]){6}")
_PHONE_BEGINS = re.compile(r"[+\uff0b][ (]{0,2}[0-9]|(?<![0-9A-Za-z.,+-])00(?=[1-9][0-9]{0,2}[ (/-])")
_IN_ADDRESS = re.compile(r"://[^\s/@]{0,100}$")
_REMOTE_PATH = re.compile(r":[\w.~-]{0,60}/")
_PHONE_LENGTH = 40
"""Characters that a number with all its separators takes at most."""


def find_personal_data(text: str) -> Iterator[tuple[NoticeCode, str]]:
    """E-mail addresses, telephone numbers with their country's code, cards and bank accounts with right check digits."""
    if ("@" in text or "\uff20" in text) and any(_is_email(found) for found in _EMAIL.finditer(text)):
        yield NoticeCode.EMAIL, "holds an e-mail address."
    if not _DIGITS.search(text):
        return
    if ("+" in text or "00" in text or "\uff0b" in text) and _holds_phone(text):
        yield NoticeCode.PHONE, "holds a telephone number."
    if holds_card(text):
        yield NoticeCode.PAYMENT_CARD, "holds a payment card number."
    if any(_is_iban(found[1]) for found in _IBAN.finditer(text)):
        yield NoticeCode.IBAN, "holds a bank account number (IBAN)."


def _is_email(found: re.Match[str]) -> bool:
    """A password in an address, and the place of a repository or a file of another computer, are none."""
    if found.string.startswith(":", found.end()) and _REMOTE_PATH.match(found.string, found.end()):
        return False
    before = found.string[max(0, found.start() - 110) : found.start()]
    return not (before.endswith((":", "/")) and _IN_ADDRESS.search(before))


def _holds_phone(text: str) -> bool:
    """Looked for where a plus or 00 stands before a country's code, so that a long text of digits takes no long time."""
    for begin in _PHONE_BEGINS.finditer(text):
        piece = text[begin.start() : begin.start() + _PHONE_LENGTH]
        if piece.startswith("00"):
            piece = "+" + piece[2:]
        elif piece[1] == " " and text[max(0, begin.start() - 3) : begin.start()].rstrip()[-1:].isdigit():
            continue  # a sum
        if any(phonenumbers.PhoneNumberMatcher(piece, None, max_tries=3)):
            return True
    return False


def _is_iban(text: str) -> bool:
    """A word may follow the number after a space, so that shorter beginnings are tried as well."""
    groups = _IBAN_GROUPS.split(text.upper())
    return any(iban.is_valid("".join(groups[:n])) for n in range(len(groups), 0, -1))
