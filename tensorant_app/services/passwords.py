"""Argon2id: slow on purpose, so it runs in a thread of its own kind and never inside a transaction."""

from __future__ import annotations

from functools import lru_cache

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

# OWASP's second choice: 19 MiB, two rounds. Two at a time stay far below what the console weighs.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1, type=Type.ID)


def hash_password(password: str) -> str:
    return _HASHER.hash(password)


def is_right(stored: str | None, password: str) -> bool:
    """Takes as long where there is no such account or no password yet."""
    try:
        return _HASHER.verify(stored or _nobodys(), password) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


@lru_cache(maxsize=1)
def _nobodys() -> str:
    return _HASHER.hash("nobody has this password")
