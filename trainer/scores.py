"""Compares an answer with the expected one: exact match, token F1 and ROUGE-L."""

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


def rouge_l(expected: str, answer: str) -> float:
    """F1 of the longest common subsequence of words: as token F1, but the order counts."""
    wanted, given = _words(expected), _words(answer)
    if not wanted or not given:
        return float(wanted == given)
    return 2 * _longest_common(wanted, given) / (len(wanted) + len(given))


def _longest_common(one: list[str], other: list[str]) -> int:
    lengths = [0] * (len(other) + 1)
    for word in one:
        before = 0
        for place, theirs in enumerate(other, start=1):
            above = lengths[place]
            lengths[place] = before + 1 if word == theirs else max(above, lengths[place - 1])
            before = above
    return lengths[-1]


def _words(text: str) -> list[str]:
    stripped = (word.strip(string.punctuation) or word for word in text.casefold().split())
    return list(stripped)
