"""Waiting after wrong passwords, by account and by network address, in rows that outlive a restart."""

from __future__ import annotations

import hashlib
import math
from datetime import datetime, timedelta

from sqlmodel import Session, col, delete

from tensorant_app.db.session import now_of
from tensorant_app.db.sessions import SignInThrottle
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.sign_in import FREE_TRIES, TRIES_FORGOTTEN_AFTER, pause_after


class TooManyTries(Conflict):
    def __init__(self, wait: timedelta) -> None:
        seconds = math.ceil(wait.total_seconds())
        words = f"{seconds} seconds" if seconds < 90 else f"{math.ceil(seconds / 60)} minutes"
        super().__init__(f"Too many wrong passwords. Try again in {words}.")
        self.seconds = seconds


def count_try(session: Session, email: str, address: str) -> None:
    """Count the try as wrong before it is looked at, so that many at once cannot slip through."""
    now = now_of(session)
    session.exec(delete(SignInThrottle).where(col(SignInThrottle.last_at) < now - TRIES_FORGOTTEN_AFTER))
    rows = [_row(session, key, now) for key in _keys(email, address)]
    blocked_until = max(row.blocked_until for row in rows)
    if blocked_until > now:
        raise TooManyTries(blocked_until - now)
    for row in rows:
        row.wrong += 1
        row.last_at = now
        row.blocked_until = now + pause_after(row.wrong, FREE_TRIES[row.key.partition(":")[0]])
        session.add(row)


def forget_tries(session: Session, email: str, address: str) -> None:
    """It was right: the account begins anew, and the address gets back this one try."""
    account, place = (session.get(SignInThrottle, key) for key in _keys(email, address))
    if account is not None:
        session.delete(account)
    if place is not None:
        place.wrong = max(place.wrong - 1, 0)
        place.blocked_until = place.last_at
        session.add(place)


def _keys(email: str, address: str) -> tuple[str, str]:
    return f"account:{hashlib.sha256(email.encode()).hexdigest()}", f"address:{address}"


def _row(session: Session, key: str, now: datetime) -> SignInThrottle:
    row = session.get(SignInThrottle, key, with_for_update=True)
    return row or SignInThrottle(key=key, wrong=0, last_at=now, blocked_until=now)
