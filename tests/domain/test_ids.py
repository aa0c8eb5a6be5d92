"""Ids sort by time and depend on nothing but their arguments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorant_app.domain.ids import RANDOM_BYTES, made_at, make_id

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
times = st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=st.just(UTC))
noise = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


@given(times, noise)
def test_an_id_is_a_uuid_of_version_7_that_knows_its_time(now: datetime, random: bytes) -> None:
    made = make_id(now, random)

    assert (made.version, made.variant) == (7, RFC_4122)
    assert timedelta(0) <= now - made_at(made) < timedelta(milliseconds=1)


@given(times, noise, noise)
def test_a_later_id_sorts_later(now: datetime, one: bytes, other: bytes) -> None:
    assert make_id(now, one) < make_id(now + timedelta(milliseconds=1), other)


def test_the_random_bytes_tell_ids_of_one_moment_apart() -> None:
    made = {make_id(NOON, bytes([n] * RANDOM_BYTES)) for n in range(256)}

    assert len(made) == 256
    assert make_id(NOON, bytes(10)) == make_id(NOON, bytes(10))


def test_too_few_random_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="10 random bytes, not 9"):
        make_id(NOON, bytes(9))
