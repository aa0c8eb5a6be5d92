"""Compares an answer with the expected one: exact match and token F1."""

from __future__ import annotations

import string
from collections import Counter


def tidy(text: str) -> str:
    """White space at the ends is dropped and inside is one space; letters keep their case."""
    return " ".join(text.split())


def exact_match(expected: str, answer: str) -> bool:
    """Case counts: a label or a piece of JSON in other letters is another answer."""
    return tidy(expected) == tidy(answer)


def token_f1(expected: str, answer: str) -> float:
    """As in SQuAD, over words without case and outer punctuation; articles stay, since answers come in any language."""
    wanted, given = _words(expected), _words(answer)
    if not wanted or not given:
        return float(wanted == given)
    common = sum((Counter(wanted) & Counter(given)).values())
    return 2 * common / (len(wanted) + len(given))


def _words(text: str) -> list[str]:
    stripped = (word.strip(string.punctuation) or word for word in text.casefold().split())
    return list(stripped)
