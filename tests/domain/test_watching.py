"""How often a machine's heartbeat is read: seldom in the middle, soon where its end may be near."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tensorant_app.domain.watching import OFTEN, RARELY, WATCHED, read_pause, time_left


def pause(
    *, watched: bool = False, started: bool = True, ending: bool = False, left: float | None = None, elapsed: float = 0
) -> timedelta:
    return read_pause(
        is_watched=watched,
        has_started=started,
        is_ending=ending,
        time_left=None if left is None else timedelta(seconds=left),
        elapsed=timedelta(seconds=elapsed),
    )


def test_an_open_page_sees_it_within_seconds() -> None:
    assert pause(watched=True, elapsed=9_000) == WATCHED


def test_beginning_and_end_are_looked_at_often() -> None:
    assert pause(started=False) == pause(ending=True, elapsed=9_000) == OFTEN


@pytest.mark.parametrize(("left", "expected"), [(3, OFTEN), (100, timedelta(seconds=100)), (4_000, RARELY)])
def test_work_that_knows_its_end_is_read_then(left: float, expected: timedelta) -> None:
    assert pause(left=left, elapsed=9_000) == expected


@pytest.mark.parametrize(("elapsed", "expected"), [(2, OFTEN), (80, timedelta(seconds=80)), (9_000, RARELY)])
def test_work_that_does_not_is_never_read_later_than_it_has_lasted(elapsed: float, expected: timedelta) -> None:
    assert pause(elapsed=elapsed) == expected


def test_the_rest_is_reckoned_by_the_speed_so_far() -> None:
    assert time_left(25, 100, 50) == timedelta(seconds=150)
    assert time_left(0, 100, 50) is None
    assert time_left(100, 100, 50) == timedelta(0)
