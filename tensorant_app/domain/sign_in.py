"""Passwords, sessions and one-time links: their rules, and how long a guesser waits."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from tensorant_app.domain.errors import Invalid

SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 256
"""Characters. Longer ones only cost us time."""
SESSION_ENDS_AFTER = timedelta(days=30)
SESSION_IDLES_AFTER = timedelta(days=7)
SEEN_EVERY = timedelta(minutes=5)
"""How exactly a session remembers when it was last used."""
FREE_TRIES = {"account": 5, "address": 30}
"""Wrong passwords in a row before the waiting begins."""
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=15)
TRIES_FORGOTTEN_AFTER = timedelta(hours=1)

_COMMON = frozenset(
    """
    12345678 123456789 1234567890 11111111 00000000 87654321 88888888 12341234 11223344 123123123 987654321
    password password1 password12 password123 passw0rd p@ssw0rd p@ssword motdepasse passwort kennwort
    qwertyui qwertyuiop qwerty12 qwerty123 1q2w3e4r 1qaz2wsx 1q2w3e4r5t q1w2e3r4 asdfghjk asdfasdf zxcvbnm1 qazwsxedc
    abcd1234 abc12345 abcdefgh abcdefg1 a1b2c3d4 aa123456 iloveyou iloveyou1 sunshine princess football baseball
    superman starwars whatever trustno1 welcome1 welcome123 letmein1 letmein123 changeme changeme1 computer
    administrator admin123 admin1234 rootroot testtest test1234 demo1234 tensorant tensorant1 tensorant123 secret123
    """.split()  # noqa: SIM905 – a list of words reads better as text
)


class LinkKind(StrEnum):
    """What a one-time link is for."""

    SET_UP = "set up"
    """The first owner makes the organization."""
    SIGN_IN = "sign in"
    PASSWORD = "set a password"


LINK_LASTS = {
    LinkKind.SET_UP: timedelta(days=7),
    LinkKind.SIGN_IN: timedelta(minutes=15),
    LinkKind.PASSWORD: timedelta(days=3),
}


def check_password(password: str, *, of: str) -> None:
    """Refuse what is guessed first. Length counts, kinds of characters do not; pasting is fine."""
    if len(password) < SHORTEST_PASSWORD:
        raise Invalid({"password": f"A password has at least {SHORTEST_PASSWORD} characters; longer is better."})
    if len(password) > LONGEST_PASSWORD:
        raise Invalid({"password": f"A password has at most {LONGEST_PASSWORD} characters."})
    plain = password.lower()
    if plain in _COMMON or len(set(plain)) < 3:
        raise Invalid({"password": "This password is among the first that are guessed. Choose another."})
    if plain in (of.lower(), of.lower().partition("@")[0]):
        raise Invalid({"password": "The password must not be the e-mail address. Choose another."})


def pause_after(wrong: int, free: int) -> timedelta:
    """How long the next try waits after so many wrong ones: nothing at first, then twice as long each time."""
    if wrong < free:
        return timedelta(0)
    # 5 s doubled eight times is over 15 minutes: no need for huge powers.
    doublings: int = 2 ** min(wrong - free, 8)
    return min(FIRST_PAUSE * doublings, LONGEST_PAUSE)
