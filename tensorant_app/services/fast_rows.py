"""Plain chat rows read by a fast parser; whatever it does not vouch for is left to the strict reading.

A row taken here is byte for byte the one that the strict reading makes; a test compares them on any input.
"""

from __future__ import annotations

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


def read_plain_row(record: Record) -> Row | None:
    """None where the strict reading has to look, whatever the reason."""
    body = record.body
    if not isinstance(body, bytes):
        return None
    try:
        chat = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    messages = chat.messages
    roles: list[str] = [message.role for message in messages]
    texts = [message.content for message in messages]
    if not messages or not _in_order(roles, texts):
        return None
    text = _ENCODER.encode(chat)
    # The shortest way to write the row: with no other sign than spaces beyond it, no key can stand twice.
    if len(body) - body.count(b" ") != len(text) - text.count(b" ") or b"\\u0000" in text:
        return None
    copy, question = keys_of_texts(roles, texts)
    digest = sha256(_SORTED.encode(chat)).hexdigest()
    return Row(record.row, record.line, text.decode(), digest, copy, question, len(texts[-1]))


def _in_order(roles: list[str], texts: list[str]) -> bool:
    """Begins with a question, ends with a reply, and no reply is empty."""
    if roles[-1] != "assistant" or "user" not in roles or roles.index("assistant") < roles.index("user"):
        return False
    return not any(
        role == "assistant" and (not text or text.isspace()) for role, text in zip(roles, texts, strict=True)
    )
