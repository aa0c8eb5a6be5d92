"""Plain chat rows read by a fast parser; whatever it does not vouch for is left to the strict reading.

A row taken here is byte for byte the one that the strict reading makes; a test compares them on any input.
"""

from __future__ import annotations

import hashlib
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
    if not messages or not _in_order(messages):
        return None
    text = _ENCODER.encode(chat)
    # The shortest way to write the row: with no other sign than spaces beyond it, no key can stand twice.
    if len(body) - body.count(b" ") != len(text) - text.count(b" ") or b"\\u0000" in text:
        return None
    keys = keys_of_texts([(message.role, message.content) for message in messages])
    digest = hashlib.sha256(_SORTED.encode(chat)).hexdigest()
    reply = len(messages[-1].content)
    return Row(record.row, record.line, text.decode(), digest, keys.copy, keys.question, reply)


def _in_order(messages: list[_Message]) -> bool:
    """Begins with a question, ends with a reply, and no reply is empty."""
    asked = False
    for message in messages:
        if message.role == "user":
            asked = True
        elif message.role == "assistant" and (not asked or not message.content or message.content.isspace()):
            return False
    return messages[-1].role == "assistant"
