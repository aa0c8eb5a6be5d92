"""The built-in safety check: secrets and payment cards that must not be learned by a model.

It names where something stands and of which kind, never what it is. E-mail addresses, telephone numbers and account
numbers are not looked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tensorant_app.domain.images import STORED_NAME
from tensorant_app.domain.json_values import walk


class SafetyCode(StrEnum):
    PRIVATE_KEY = "private_key"
    AWS_KEY = "aws_key"
    GITHUB_KEY = "github_key"
    SLACK_KEY = "slack_key"
    MODEL_API_KEY = "model_api_key"
    STRIPE_KEY = "stripe_key"
    GOOGLE_KEY = "google_key"
    HUGGING_FACE_KEY = "hugging_face_key"
    RUNPOD_KEY = "runpod_key"
    GITLAB_KEY = "gitlab_key"
    PACKAGE_KEY = "package_key"
    SENDGRID_KEY = "sendgrid_key"
    AZURE_KEY = "azure_key"
    DATABASE_PASSWORD = "database_password"
    SIGNED_CLAIMS = "signed_claims"
    PAYMENT_CARD = "payment_card"
    LISTED_WORD = "listed_word"
    """Of the organization's own list."""
    CLASSIFIER = "classifier"
    """The organization's own classifier refuses the row."""


@dataclass(frozen=True, slots=True)
class Finding:
    code: SafetyCode
    path: str
    """Such as `messages[1].content`."""

    @property
    def sentence(self) -> str:
        return f"{self.path or 'The row'} holds what looks like {_NAMES[self.code]}; remove it from the data."


def check_example(example: str) -> list[Finding]:
    """What a stored example holds of secrets and cards, each kind once per place; keys are looked at as well."""
    return check_values(json.loads(example))


def check_values(values: object, find_word: Callable[[str], int | None] = lambda _: None) -> list[Finding]:
    """The same of an example that was read, and the words that `find_word` finds."""
    findings = dict.fromkeys(
        Finding(code, path)
        for path, _, value in walk(values)
        for text in _texts(value)
        for code in (*check_text(text), *([SafetyCode.LISTED_WORD] if find_word(text) else []))
    )
    return list(findings)


def check_text(text: str) -> Iterator[SafetyCode]:
    for code, (signs, pattern) in _SECRETS.items():
        # Nearly no text holds a sign, and looking for one costs next to nothing.
        if any(sign in text for sign in signs) and any(_is_secret(found) for found in pattern.finditer(text)):
            yield code
    if holds_card(text):
        yield SafetyCode.PAYMENT_CARD


def holds_card(text: str) -> bool:
    """Whether a payment card number with the right check digit stands in it."""
    return any(_holds_card(run[0]) for run in _DIGIT_RUN.finditer(text))


_NAMES = {
    SafetyCode.PRIVATE_KEY: "a private key",
    SafetyCode.AWS_KEY: "an AWS key",
    SafetyCode.GITHUB_KEY: "a GitHub token",
    SafetyCode.SLACK_KEY: "a Slack token or webhook",
    SafetyCode.MODEL_API_KEY: "an OpenAI or Anthropic API key",
    SafetyCode.STRIPE_KEY: "a Stripe key",
    SafetyCode.GOOGLE_KEY: "a Google API key",
    SafetyCode.HUGGING_FACE_KEY: "a Hugging Face token",
    SafetyCode.RUNPOD_KEY: "a RunPod API key",
    SafetyCode.GITLAB_KEY: "a GitLab token",
    SafetyCode.PACKAGE_KEY: "a token of npm or PyPI",
    SafetyCode.SENDGRID_KEY: "a SendGrid API key",
    SafetyCode.AZURE_KEY: "an Azure storage key",
    SafetyCode.DATABASE_PASSWORD: "a database's address with its password",
    SafetyCode.SIGNED_CLAIMS: "a signed token (JWT)",
    SafetyCode.PAYMENT_CARD: "a payment card number",
    SafetyCode.LISTED_WORD: "a word of the organization's list",
}


def _token(shape: str) -> re.Pattern[str]:
    """The shape at the start of a word: every run of letters is then looked at once, however long."""
    return re.compile(f"(?<![A-Za-z0-9_-])(?:{shape})")


def _is_secret(found: re.Match[str]) -> bool:
    """A placeholder of a tutorial is none."""
    secret = found.groupdict().get("secret") or found[0]
    return len({*secret}) >= _FEWEST_SIGNS and _PLACEHOLDER.search(secret) is None


_FEWEST_SIGNS = 8
"""Different ones, of a secret with its prefix; keys are made by chance and have many more."""
_PLACEHOLDER = re.compile(r"abcdefgh|[<>{}$*]|(?i:x{4}|your|placeholder|password|passw0rd|changeme|secret)")

_SECRETS: Mapping[SafetyCode, tuple[tuple[str, ...], re.Pattern[str]]] = {
    SafetyCode.PRIVATE_KEY: (
        (" PRIVATE KEY", "PuTTY-User-Key-File-"),
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
            r"|PuTTY-User-Key-File-[0-9]: "
        ),
    ),
    SafetyCode.AWS_KEY: (
        ("AKIA", "ASIA", "ecret", "SECRET"),
        re.compile(
            r"(?<![A-Za-z0-9_-])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"
            r"|(?i:secret_?access_?key)[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
        ),
    ),
    SafetyCode.GITHUB_KEY: (("gh", "github_pat_"), _token(r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22}")),
    SafetyCode.SLACK_KEY: (
        ("xox", "xapp-", "hooks.slack.com"),
        _token(
            r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10}"
            r"|hooks\.slack\.com/(?:services|workflows)/T[A-Z0-9]{5,20}/[A-Z0-9]{5,20}/[A-Za-z0-9]{20}"
        ),
    ),
    SafetyCode.MODEL_API_KEY: (
        ("sk-",),
        _token(r"sk-(?:[A-Za-z0-9]{20}|(?:proj|svcacct|admin|or-v1|ant(?:-[a-z]{1,10}[0-9]{0,2})?)-[A-Za-z0-9_-]{20})"),
    ),
    SafetyCode.STRIPE_KEY: (("k_live_",), _token(r"[rs]k_live_[A-Za-z0-9]{16}")),
    SafetyCode.GOOGLE_KEY: (("AIza",), _token(r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])")),
    SafetyCode.HUGGING_FACE_KEY: (("hf_",), _token(r"hf_[A-Za-z0-9]{30}")),
    SafetyCode.RUNPOD_KEY: (("rpa_",), _token(r"rpa_[A-Za-z0-9]{30}")),
    SafetyCode.GITLAB_KEY: (("glpat-",), _token(r"glpat-[A-Za-z0-9_-]{20}")),
    SafetyCode.PACKAGE_KEY: (("npm_", "pypi-"), _token(r"npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50}")),
    SafetyCode.SENDGRID_KEY: (("SG.",), _token(r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}")),
    SafetyCode.AZURE_KEY: (("AccountKey=",), re.compile(r"AccountKey=[A-Za-z0-9+/]{86}==")),
    SafetyCode.DATABASE_PASSWORD: (
        ("://",),
        re.compile(
            r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|redis|amqps?)(?:\+[a-z0-9]{1,12})?://[^\s:/@]{0,60}:"
            r"(?P<secret>[^\s/@]{8,100})@(?!localhost|127\.|example\.|host[:/])"
        ),
    ),
    SafetyCode.SIGNED_CLAIMS: (
        ("eyJ",),
        _token(r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8}"),
    ),
}

_SEPARATOR = r"(?:[ \u00a0\u2009\u202f]{1,2}|[./\u2010\u2011\u2013-]|\r?\n)"
_DIGIT_RUN = re.compile(rf"(?<![A-Za-z0-9_])[0-9]+(?:{_SEPARATOR}[0-9]+)*(?![A-Za-z0-9_])")
_DIVIDED = re.compile(f"({_SEPARATOR})")
_CARD_SHAPES = {(4, 4, 4, 4), (4, 4, 4, 4, 1), (4, 4, 4, 4, 2), (4, 4, 4, 4, 3), (4, 4, 4, 1), (4, 6, 5), (4, 6, 4)}
"""Digits between separators as printed on cards; 13 to 19 digits in one piece are a card as well."""
_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12,15}"  # Discover
    r"|3(?:0[0-5]|[689]\d)\d{11}"  # Diners Club
    r"|35(?:2[89]|[3-8]\d)\d{12,15}"  # JCB
    r"|62\d{14,17}"  # UnionPay
    r"|(?:50(?:18|20|38)|5893|6304|6759|676[1-3])\d{9,15}"  # Maestro
    r"|220[0-4]\d{12,15}"  # Mir
    r"|(?:508[5-9]|60(?:69|[78]\d)|65(?:2[1-9]|3[01])|8[12]\d\d)\d{12}"  # RuPay
)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    elif isinstance(value, str):
        # The digits of an image's name, which is made of its content, are nobody's card.
        yield from () if STORED_NAME.fullmatch(value) else (value,)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


def _holds_card(run: str) -> bool:
    """Whether a run of digits and separators holds a card; digits behind a decimal point are none."""
    pieces = _DIVIDED.split(run)
    groups, marks = pieces[::2], ["", *pieces[1::2], ""]
    for first in range(len(groups)):
        for size in (1, 3, 4, 5):
            window = groups[first : first + size]
            shape = tuple(len(group) for group in window)
            whole = len(window) == 1 and 13 <= shape[0] <= 19
            alone = marks[first] != "." and marks[first + len(window)] != "."
            # One line end wraps a number; several make a list of numbers.
            alone = alone and sum("\n" in mark for mark in marks[first + 1 : first + len(window)]) <= 1
            if alone and (whole or shape in _CARD_SHAPES) and _is_card("".join(window)):
                return True
    return False


def _is_card(digits: str) -> bool:
    is_barcode = len(digits) == 13 and _weighted(digits, (1, 3)) % 10 == 0
    return _ISSUERS.fullmatch(digits) is not None and _passes_luhn(digits) and not is_barcode


def _passes_luhn(digits: str) -> bool:
    doubled = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
    return sum(doubled[int(d)] if n % 2 else int(d) for n, d in enumerate(reversed(digits))) % 10 == 0


def _weighted(digits: str, weights: tuple[int, int]) -> int:
    return sum(int(digit) * weights[n % 2] for n, digit in enumerate(digits))
