"""How often what is looked at: accounts, volumes, machines that are to be deleted."""

from __future__ import annotations

from datetime import datetime, timedelta

POLL = timedelta(seconds=10)
"""Between two looks at an account; one call tells of all its machines."""
POLL_AFTER_ERROR = timedelta(seconds=20)
SWEEP = timedelta(minutes=2)
ENDING = timedelta(seconds=20)
"""While a machine that no row knows is being ended."""
LOCAL = timedelta(seconds=1)
"""Between two looks at a process of this computer."""

RARELY = timedelta(minutes=5)
"""Between two reads of a heartbeat that nobody waits for."""
OFTEN = timedelta(seconds=15)
"""While it begins or ends, when the next step of its user depends on it."""
WATCHED = timedelta(seconds=5)
"""While somebody looks at its page."""

_ASKS_LOG = timedelta(minutes=1)

FIRST_RETRY = timedelta(seconds=10)
LONGEST_RETRY = timedelta(minutes=2)
UNCONFIRMED = timedelta(seconds=90)
"""A delete that was taken, and the machine is listed all the same: it is asked again."""


def lookup_pause(age: timedelta) -> timedelta:
    """Between two looks for a machine whose answer was lost: 1, 2, 4 … seconds, then as for any other."""
    return min(max(age, timedelta(seconds=1)), POLL)


def read_pause(
    *, is_watched: bool, has_started: bool, is_ending: bool, time_left: timedelta | None, elapsed: timedelta
) -> timedelta:
    """Until the next read of a heartbeat. `time_left` is what the work itself expects to take.

    Where it cannot say, never longer than it has taken so far: short work must not be paid for minutes after its end.
    """
    if is_watched:
        return WATCHED
    if not has_started or is_ending:
        return OFTEN
    return min(max(elapsed if time_left is None else time_left, OFTEN), RARELY)


def asks_log(seen_at: datetime | None, read_at: datetime | None, now: datetime) -> bool:
    """Whether a machine that has not started is asked for its log: once in each minute since it looked like this."""
    if seen_at is None or read_at is None:
        return False
    return (now - seen_at) // _ASKS_LOG > max((read_at - seen_at) // _ASKS_LOG, 0)


def release_pause(tries: int, *, was_taken: bool) -> timedelta:
    """Until the next delete call, for ever: growing pauses, longer where the last one was taken."""
    doublings = min(max(tries - 1, 0), 10)
    first = UNCONFIRMED if was_taken else FIRST_RETRY
    return min(first * int(2**doublings), LONGEST_RETRY)


def time_left(done: int, total: int, elapsed: float) -> timedelta | None:
    """By the speed so far, in steps or in rows; None before the first one."""
    if done <= 0 or total <= 0:
        return None
    return timedelta(seconds=elapsed / done * max(total - done, 0))


def earliest(*times: datetime | None) -> datetime | None:
    return min((at for at in times if at is not None), default=None)
