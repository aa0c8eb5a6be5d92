"""When two examples are the same to a reader: keys that are equal for copies, and for questions asked again."""

from __future__ import annotations

import json
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

KEY_BYTES = 16
CHAIN_BYTES = 8


class Keys(NamedTuple):
    copy: bytes
    """Of question and reply but for case and white space. System texts are left out: the same question and answer
    under another instruction is a copy."""
    question: bytes
    """Of everything before the last message, system texts included: equal keys with other copies contradict."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    row: int
    first: int
    """The earlier row with the same content."""


def keys_of(messages: Sequence[Mapping[str, object]]) -> Keys:
    """Of the messages of a stored example."""
    said = [(str(m["role"]), _text_of(m)) for m in messages]
    return Keys(*keys_of_texts([role for role, _ in said], [text for _, text in said]))


def keys_of_texts(roles: Sequence[str], texts: Sequence[str]) -> tuple[bytes, bytes]:
    """`Keys` of roles and texts, in order. NUL stands between them, which no stored text holds."""
    leading, initials = _shape(tuple(roles))
    said = _all_plain(texts)
    if leading == 0:
        system = b""
    elif leading == 1:
        system, _, said = said.partition(b"\0")
    else:
        parts = list(zip(roles, said.split(b"\0"), strict=True)) if roles else []
        system = b"\0".join([text for role, text in parts if role == "system"])
        said = b"\0".join([text for role, text in parts if role != "system"])
    last = said.rfind(b"\0") + 1
    begin = initials if last else initials + b"\0"
    return (
        blake2b(begin + said, digest_size=KEY_BYTES).digest(),
        blake2b(begin + said[:last] + system, digest_size=KEY_BYTES).digest(),
    )


@lru_cache(maxsize=1_000)
def _shape(roles: tuple[str, ...]) -> tuple[int, bytes]:
    """How many system texts stand before all else, -1 where some stand elsewhere; and the other roles' first letters."""
    others = [role for role in roles if role != "system"]
    leading = len(roles) - len(others)
    is_plain = roles[:leading].count("system") == leading and others
    return leading if is_plain else -1, "".join([role[0] for role in others]).encode()


class Conversation(NamedTuple):
    """What is said in an example but for system texts, case and white space."""

    beginnings: list[bytes]
    """A key of `CHAIN_BYTES` for each reply, of all that is said up to it; the last one is the whole example's."""
    text: str


def read_conversation(messages: Sequence[Mapping[str, object]]) -> Conversation:
    """Of the messages of a stored example: equal keys for an example and the beginning of a longer one."""
    chain, beginnings, texts = blake2b(digest_size=CHAIN_BYTES), list[bytes](), list[bytes]()
    for message in messages:
        if message["role"] == "system":
            continue
        plain = _plain(_text_of(message))
        chain.update(str(message["role"])[0].encode() + plain + b"\0")
        texts.append(plain)
        if message["role"] == "assistant":
            beginnings.append(chain.copy().digest())
    return Conversation(beginnings, b" ".join(texts).decode())


def copy_key(example: str) -> str:
    """Of a stored example."""
    return keys_of(json.loads(example)["messages"]).copy.hex()


def find_duplicates(rows: Iterable[tuple[int, str]]) -> Iterator[Duplicate]:
    """Rows (number, hash or copy key) that repeat an earlier one; keeps one entry per different row."""
    first: dict[str, int] = {}
    for row, key in rows:
        if (seen := first.setdefault(key, row)) != row:
            yield Duplicate(row, seen)


def _text_of(message: Mapping[str, object]) -> str:
    content, calls = message.get("content"), message.get("tool_calls")
    text = content if isinstance(content, str) else json.dumps(content or "", sort_keys=True)
    return text + json.dumps(calls, sort_keys=True) if calls else text


_LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_SPACES = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"


def _all_plain(texts: Sequence[str]) -> bytes:
    """Divided by NUL. All at once where all are ASCII: a translation costs more than it takes for a short text."""
    joined = "\0".join(texts)
    return _plain(joined) if joined.isascii() else b"\0".join([_plain(text) for text in texts])


def _plain(text: str) -> bytes:
    if text.isascii():
        return text.encode().translate(_LOWER, _SPACES)
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return "".join(folded.split()).encode()
