"""What an organization adds to the built-in safety check: words that no row may hold, and a classifier that is asked."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from tensorant_app.domain.errors import Invalid

BUILT_IN = 1
"""Counts up when the built-in check learns something: versions are then looked at again."""
MOST_WORDS = 2_000
LONGEST_WORD = 100
SECONDS = (1, 3_600)
"""What a classifier may take for all rows of a version."""
DEFAULT_SECONDS = 600
LONGEST_TOKEN = 4_096
_OWN_HEADERS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "accept-encoding", "cookie"}
)


class ClassifierKind(StrEnum):
    NONE = "none"
    COMMAND = "command"
    HTTP = "http"


@dataclass(frozen=True, slots=True)
class SafetySettings:
    words: tuple[str, ...] = ()
    kind: ClassifierKind = ClassifierKind.NONE
    command: tuple[str, ...] = ()
    url: str = ""
    seconds: int = DEFAULT_SECONDS
    is_private_allowed: bool = False
    """The operator lets the address lie inside this network."""
    header: str = ""
    """That bears the token; empty: `Authorization: Bearer`."""
    last_four: str = ""
    """Of the token that is sent, where it is long enough to show them."""
    has_token: bool = False

    @property
    def token_words(self) -> str:
        """What may be said of the token."""
        if not self.has_token:
            return "No token is sent."
        ending = f" ending in {self.last_four}" if self.last_four else ""
        return f"A token{ending} is sent" + (f" in the header {self.header}." if self.header else ".")

    @property
    def fingerprint(self) -> str:
        """Equal for settings that refuse the same rows; a result bears the one that it was made with."""
        # Whoever asks with another token is answered the same.
        asked = {
            name: value for name, value in asdict(self).items() if name not in ("header", "last_four", "has_token")
        }
        return hashlib.sha256(json.dumps([BUILT_IN, asked], sort_keys=True).encode()).hexdigest()[:16]


def read_words(text: str) -> tuple[str, ...]:
    """One a line; empty lines and repeats are passed over."""
    words = tuple(dict.fromkeys(word for line in text.splitlines() if (word := " ".join(line.split()))))
    if len(words) > MOST_WORDS:
        raise Invalid({"words": f"There are {len(words):,} words; at most {MOST_WORDS:,} can be listed."})
    if long := next((word for word in words if len(word) > LONGEST_WORD), None):
        raise Invalid({"words": f"“{long[:30]} …” is longer than {LONGEST_WORD} characters. Shorten it."})
    return words


def read_url(text: str, *, is_private_allowed: bool = False) -> str:
    """An address that may be asked; whether its host lies outside this network is seen at each call."""
    url = text.strip()
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or parts.scheme not in (("https", "http") if is_private_allowed else ("https",)):
        raise Invalid({"url": "Write an address that begins with https://, such as https://safety.example.com/check."})
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid({"url": "The address must hold no name, no password and no #; it is shown to members."})
    return url


def read_token(text: str) -> str:
    """As it stands in a header: printable ASCII without spaces. Empty where none is sent."""
    token = text.strip()
    if len(token) > LONGEST_TOKEN or not all("!" <= letter <= "~" for letter in token):
        raise Invalid({"token": f"A token has at most {LONGEST_TOKEN:,} letters, digits and signs, and no space."})
    return token


def read_header(text: str) -> str:
    """A header's name; empty for `Authorization: Bearer`."""
    name = text.strip()
    if name and (not re.fullmatch(r"[A-Za-z0-9-]{1,60}", name) or name.lower() in _OWN_HEADERS):
        raise Invalid({"header": "Write the name of a header of the classifier's own, such as X-API-Key."})
    return "" if name.lower() == "authorization" else name


def headers_of(header: str, token: str) -> dict[str, str]:
    """What a call bears beside the rows."""
    if not token:
        return {}
    return {header: token} if header else {"Authorization": f"Bearer {token}"}


def read_seconds(text: str) -> int:
    low, high = SECONDS
    if not text.strip().isdigit() or not low <= int(text) <= high:
        raise Invalid({"seconds": f"Write a whole number of seconds from {low} to {high:,}."})
    return int(text)


def read_command(text: str) -> tuple[str, ...]:
    """As one would type it; no shell reads it."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise Invalid({"command": "A quotation mark of the command is never closed. Close it."}) from None


def word_finder(words: Sequence[str]) -> Callable[[str], int | None]:
    """Finds the first listed word of a text, whatever its case; answers its place in the list, from 1."""
    if not words:
        return lambda _: None
    places = {_fold(word): place for place, word in reversed(list(enumerate(words, start=1)))}
    longest_first = sorted(places, key=lambda word: (-len(word), word))
    pattern = re.compile("|".join(_guarded(word) for word in longest_first))

    def find(text: str) -> int | None:
        found = pattern.search(_fold(text))
        return None if found is None else places[" ".join(found[0].split())]

    return find


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _guarded(word: str) -> str:
    """Whole words only, in scripts that write spaces."""
    before = r"(?<!\w)" if _is_spaced(word[0]) else ""
    after = r"(?!\w)" if _is_spaced(word[-1]) else ""
    return before + r"\s+".join(map(re.escape, word.split())) + after


def _is_spaced(letter: str) -> bool:
    return letter.isalnum() and unicodedata.east_asian_width(letter) not in "WF"
