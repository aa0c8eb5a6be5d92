"""One look at a whole account, every ten seconds; and the sweep, which deletes what should be gone by the list alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain import watching
from tensorant_app.domain.errors import AuthFailed, ProviderError
from tensorant_app.providers.base import Provider
from tensorant_app.services import accounts, strays
from tensorant_app.services.accounts import Door
from tensorant_app.services.strays import Sweep

_log = logging.getLogger(__name__)


@actor(accounts.POLL, queue="fast")
def poll(lease: Lease) -> None:
    """List the account, compare, and wake the jobs of those machines that changed."""
    at = clock.now()
    try:
        with reading(at) as session:
            door = accounts.open_door(session, lease.subject_id)
            known = accounts.known_machines(session, lease.subject_id) if door else []
            last = accounts.last_look(session, lease.subject_id)
            is_idle = door is None or not (known or accounts.has_machines(session, lease.subject_id))
        if door is None or is_idle:
            _rest(lease)
            return
        listed = door.provider.listing()
    except ProviderError as error:
        _note_unreachable(lease, error, watching.POLL_AFTER_ERROR)
        return
    diff = accounts.compare(known, listed, door.installation, at, last)
    with lease.write() as session:
        accounts.open_account(session, lease.subject_id, door.organization_id)
        accounts.note_listing(session, lease.subject_id, diff)
        accounts.note_pause(session, lease.subject_id, door.provider.pause)
        lease.again(session, accounts.next_poll(known, at, door.provider.pause))


@actor(strays.SWEEP, queue="fast")
def sweep(lease: Lease) -> None:
    """The third stop: from the account's list alone, without any promise or look of the machines themselves."""
    at = clock.now()
    try:
        with reading(at) as session:
            door = accounts.open_door(session, lease.subject_id)
            quiet = accounts.quiet_until(session, lease.subject_id, at)
        if door is None:
            _rest(lease)
            return
        if quiet is not None:
            _wait(lease, quiet)
            return
        listed = door.provider.listing()
        with reading(at) as session:
            found = strays.sort_out(session, listed, door.installation, at)
    except ProviderError as error:
        _note_unreachable(lease, error, watching.SWEEP)
        return
    _clean(lease, door, found)


def _clean(lease: Lease, door: Door, found: Sweep) -> None:
    """Delete first, write after: a machine must not live on because something could not be written."""
    calls = [_delete(door.provider, doomed.name, doomed.outputs_key, doomed.provider_ids) for doomed in found.doomed]
    listed = {machine.provider_id for machine in found.strays}
    with reading() as session:
        wanted = [end for end in strays.wanted_ends(session, lease.subject_id) if end[1] in listed]
    for name in found.running_again:
        _stop(door.provider, name)
    ends = [(stray_id, _terminate(door.provider, provider_id)) for stray_id, provider_id in wanted]
    with lease.write() as session:
        accounts.open_account(session, lease.subject_id, door.organization_id)
        for doomed, (problem, was_known) in zip(found.doomed, calls, strict=True):
            strays.note_doomed(session, doomed, problem=problem, rules=door.provider.rules, was_known=was_known)
        for stray_id, problem in ends:
            strays.note_terminated(session, stray_id, problem=problem)
        strays.note_strays(session, lease.subject_id, found.strays)
        is_ending = bool(ends) or strays.is_waiting(session, lease.subject_id)
        pause = watching.ENDING if is_ending else watching.SWEEP
        lease.again(session, clock.now() + max(pause, door.provider.pause))


def _delete(provider: Provider, name: str, outputs_key: str, provider_ids: Sequence[str]) -> tuple[str | None, bool]:
    """What it met with, and whether the provider had it."""
    try:
        return None, provider.release(name, outputs_key, provider_ids)
    except ProviderError as error:
        _log.warning("The sweep could not delete %s: %s", name, error)
        return error.message, False


def _stop(provider: Provider, name: str) -> None:
    """Its disk is kept: it is stopped again, and not deleted."""
    try:
        provider.stop(name)
    except ProviderError as error:
        _log.warning("The sweep could not stop %s: %s", name, error)


def _terminate(provider: Provider, provider_id: str) -> str | None:
    try:
        provider.terminate(provider_id)
    except ProviderError as error:
        return error.message
    return None


def _note_unreachable(lease: Lease, error: ProviderError, pause: timedelta) -> None:
    _log.log(
        logging.WARNING if isinstance(error, AuthFailed) else logging.INFO, "An account could not be listed: %s", error
    )
    with lease.write() as session:
        accounts.note_unreachable(session, lease.subject_id, error)
        lease.again(session, clock.now() + max(pause, error.retry_after or pause))


def _wait(lease: Lease, at: datetime) -> None:
    with lease.write() as session:
        lease.again(session, at)


def _rest(lease: Lease) -> None:
    with lease.write() as session:
        lease.done(session)
