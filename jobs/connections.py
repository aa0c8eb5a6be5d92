"""What is known of each outside account: whether its credentials work, and what could be rented of it now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.connections import ConnectionState
from tensorant_app.domain.errors import AuthFailed, ProviderError
from tensorant_app.providers.base import Offer, Provider
from tensorant_app.services import connecting, offers
from tensorant_app.services.connecting import CheckResult
from tensorant_app.services.connection_checks import look

_HOUR = timedelta(hours=1)
_AFTER_TROUBLE = timedelta(seconds=30)


@actor(connecting.CHECK, queue="fast")
def check(lease: Lease) -> None:
    """One look at one connection. An outage of the provider says nothing about the key: it is tried again with backoff."""
    try:
        with reading() as session:
            task = connecting.read_check(session, lease.subject_id)
    except AuthFailed as closed:
        _note(lease, None, CheckResult(ConnectionState.FAILED, closed.message))
        return
    if task is None:
        with lease.write() as session:
            lease.done(session)
        return
    _note(lease, task.revision, look(task))


def _note(lease: Lease, revision: int | None, result: CheckResult) -> None:
    with lease.write() as session:
        if connecting.note_check(session, lease.subject_id, revision, result):
            lease.again(session, clock.now() + _HOUR)
        else:
            lease.again(session, clock.now())


@actor(offers.REFRESH, queue="fast")
def refresh(lease: Lease) -> None:
    """The catalog of one account: every minute while somebody looks at it, every half hour otherwise."""
    try:
        with reading() as session:
            task = offers.read_refresh(session, lease.subject_id)
    except AuthFailed:
        # The check of the connection says so; the lists are asked for again when it has other credentials.
        _rest(lease)
        return
    if task is None:
        with lease.write() as session:
            lease.done(session)
        return
    found = [(count, *_ask(task.provider, count)) for count in task.counts]
    with lease.write() as session:
        for count, seen, trouble in found:
            offers.note_offers(session, task.connection_id, count, seen, trouble)
        at = offers.next_refresh(session, task.connection_id)
        if at is None:
            lease.done(session)
        else:
            is_well = not any(trouble for _, _, trouble in found)
            lease.again(
                session, at if is_well else max(at, clock.now() + _AFTER_TROUBLE, clock.now() + task.provider.pause)
            )


def _ask(provider: Provider, count: int) -> tuple[Sequence[Offer] | None, str]:
    try:
        return provider.offers(count), ""
    except ProviderError as error:
        return None, error.message


def _rest(lease: Lease) -> None:
    with lease.write() as session:
        lease.again(session, clock.now() + _HOUR)
