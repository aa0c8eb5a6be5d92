"""Plain chat rows read by a fast parser; whatever it does not vouch for is left to the strict reading.

A row taken here is byte for byte the one that the strict reading makes; a test compares them on any input.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Literal

import msgspec

from tensorant_app.domain.copies import keys_of_texts
from tensorant_app.domain.datasets import Record, Row


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["system", "user", "assistant"]
    content: str


class _Chat(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    messages: list[_Message]


_DECODER = msgspec.json.Decoder(_Chat)
_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="sorted")


_UNSURE = re.compile(rb"\\u00(?:00|22)")
"""Escapes of NUL, which no row may hold, and of quotation marks, which are counted."""

Plain = tuple[bytes, bytes, bytes, bytes, int]
"""What `Row` says of an example, in bytes: its text, sha256, copy key and question key; and the reply's length."""


def read_plain_row(record: Record) -> Row | None:
    """None where the strict reading has to look, whatever the reason."""
    plain = read_plain(record.body) if isinstance(record.body, bytes) else None
    if plain is None:
        return None
    text, sha256, copy, question, length = plain
    return Row(record.row, record.line, text.decode(), sha256.hex(), copy, question, length)


def read_plain(body: bytes) -> Plain | None:
    """The same of a row's JSON text."""
    try:
        chat = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    roles: tuple[str, ...] = tuple([message.role for message in chat.messages])
    texts = [message.content for message in chat.messages]
    if not _is_in_order(roles, texts):
        return None
    text = _ENCODER.encode(chat)
    # A key that stands twice brings quotation marks that the shortest way to write the row does without.
    if body.count(b'"') != text.count(b'"') or _UNSURE.search(body):
        return None
    copy, question = keys_of_texts(roles, texts)
    return text, sha256(_SORTED.encode(chat)).digest(), copy, question, len(texts[-1])


def _is_in_order(roles: tuple[str, ...], texts: list[str]) -> bool:
    """Begins with a question, ends with a reply, and no reply is empty."""
    replies = _replies(roles)
    for n in replies:
        if not texts[n] or texts[n].isspace():
            return False
    return bool(replies)


@lru_cache(maxsize=1_000)
def _replies(roles: tuple[str, ...]) -> tuple[int, ...]:
    """Where they stand; none where the turns have no order that is surely right."""
    first = next((role for role in roles if role != "system"), None)
    if first != "user" or roles[-1] != "assistant":
        return ()
    return tuple(n for n, role in enumerate(roles) if role == "assistant")
