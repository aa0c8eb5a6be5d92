"""Whether the answers of a version form a small closed set of labels, so that a base model can be asked to choose.

The rule: every row has one reply and it is text; 2 to 20 different answers; each of at most 40 characters, on one line,
and given at least twice; on average each is given at least 3 times.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

MOST_LABELS = 20
LONGEST_LABEL = 40
"""Characters."""
LEAST_OF_EACH = 2
LEAST_ON_AVERAGE = 3


def closed_set(answers: Iterable[str | None]) -> tuple[str, ...]:
    """The labels in alphabetical order, or () where there is no such set; an answer of None is no single answer."""
    counts: Counter[str] = Counter()
    for answer in answers:
        label = (answer or "").strip()
        if not label or len(label) > LONGEST_LABEL or len(label.splitlines()) > 1:
            return ()
        counts[label] += 1
        if len(counts) > MOST_LABELS:
            return ()
    if len(counts) < 2 or min(counts.values()) < LEAST_OF_EACH or counts.total() < LEAST_ON_AVERAGE * len(counts):
        return ()
    return tuple(sorted(counts))


def single_answer(example: str) -> str | None:
    """The reply of a stored example that is a single turn of text; None for every other."""
    return single_reply(json.loads(example)["messages"])


def single_reply(messages: Iterable[Mapping[str, Any]]) -> str | None:
    """The same of messages that were read."""
    replies = [message for message in messages if message["role"] in ("assistant", "tool")]
    if len(replies) != 1 or replies[0].get("tool_calls"):
        return None
    content = replies[0].get("content")
    return content if isinstance(content, str) else None
