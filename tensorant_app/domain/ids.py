"""Ids that sort by the time they were made (UUID version 7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

RANDOM_BYTES = 10
"""How many random bytes `make_id` wants; six of their bits give way to version and variant."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def make_id(now: datetime, random: bytes) -> UUID:
    """The id of something made at `now` (aware); equal arguments give equal ids."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"make_id needs {RANDOM_BYTES} random bytes, not {len(random)}.")
    milliseconds = (now - _EPOCH) // timedelta(milliseconds=1)
    bits = bytearray(milliseconds.to_bytes(6, "big") + random)
    bits[6] = (bits[6] & 0x0F) | 0x70
    bits[8] = (bits[8] & 0x3F) | 0x80
    return UUID(bytes=bytes(bits))


def made_at(made_id: UUID) -> datetime:
    """The time inside an id of `make_id`, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=int.from_bytes(made_id.bytes[:6], "big"))
