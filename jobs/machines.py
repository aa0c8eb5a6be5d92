"""The life of every machine: ask once, look, release until it is proved gone."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from sqlmodel import Session

from jobs import hearing
from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain import watching
from tensorant_app.domain.errors import AuthFailed, Denied, ProviderError, Transient, Unknown, Unsupported
from tensorant_app.domain.machines import (
    LIFECYCLE,
    LISTED,
    RUNS_AGAIN,
    MachineState,
    Presence,
    Sighting,
    decide,
    is_overdue_to_start,
)
from tensorant_app.providers.base import FileStore, Provider, Storage, sight_own
from tensorant_app.services import journals, machine_steps, machines, metrics, pod_files
from tensorant_app.services.connections import provider_for, volume_for
from tensorant_app.services.machines import Look, MachineView
from tensorant_app.services.metrics import Fold

_SOON = timedelta(seconds=1)
_GOING = frozenset({MachineState.RELEASING, MachineState.RELEASE_FAILED})
_KEPT = frozenset({MachineState.HELD, MachineState.STOPPED})
_TALKS = _KEPT | {MachineState.ASKED}
_log = logging.getLogger(__name__)


@actor(machines.TEND, queue="fast")
def tend(lease: Lease) -> None:
    """One look at one machine and what follows from it."""
    with reading() as session:
        machine = machines.see_machine(session, lease.subject_id)
        if machine is not None:
            provider = provider_for(session, machine.organization_id, machine.provider)
            volume = _volume(session, machine)
            known = metrics.stored_fold(session, machine)
    if machine is None or machine.state in LIFECYCLE.final:
        with lease.write() as session:
            lease.done(session)
    elif machine.state is MachineState.ASKED and machine.ask_sent_at is None:
        _ask_or_drop(lease, machine, provider)
    else:
        _look(lease, machine, provider, volume, known)


def _volume(session: Session, machine: MachineView) -> FileStore | None:
    """None where its credentials do not open: that must not keep a machine from being given back."""
    try:
        return volume_for(session, machine.organization_id, machine.provider, machine.storage)
    except AuthFailed as error:
        _log.warning("The volume of %s cannot be opened: %s", machine.name, error)
        return None


def _ask_or_drop(lease: Lease, machine: MachineView, provider: Provider) -> None:
    if machine.release_wanted_at is not None:
        with lease.write() as session:
            machines.note_never_asked(session, machine.id)
            lease.done(session)
        return
    _ask(lease, machine, provider)


def _ask(lease: Lease, machine: MachineView, provider: Provider) -> None:
    """The paid call: its right is committed first, so that a crash anywhere leaves a machine to look for, never two."""
    try:
        request = pod_files.request_with_files(machine) if machine.storage is Storage.POD else machine.request
    except Denied as refusal:
        with lease.write() as session:
            machines.note_denied(session, machine.id, refusal)
            lease.done(session)
        return
    with lease.write() as session:
        may_ask = machines.take_ask(session, machine.id, may_ask_again=provider.rules.may_ask_again)
        if not may_ask:
            lease.again(session, clock.now())
    if not may_ask:
        return
    try:
        rented = provider.create(request)
    except (Denied, AuthFailed, Unsupported) as refusal:
        with lease.write() as session:
            machines.note_denied(session, machine.id, refusal)
            lease.done(session)
    except (Unknown, Transient):
        with lease.write() as session:
            machines.note_answer_lost(session, machine.id)
            lease.again(session, clock.now() + _SOON)
    else:
        with lease.write() as session:
            machines.note_rented(session, machine.id, rented, provider.rules)
            lease.again(session, clock.now() + _SOON)


def _look(lease: Lease, machine: MachineView, provider: Provider, volume: FileStore | None, known: Fold | None) -> None:
    """Effects first, then what the account and the volume say, then the row."""
    now = clock.now()
    by_account = provider.rules.by_account
    if machine.state in _GOING:
        _release(lease, machine, provider, now)
    if _is_to_be_stopped(machine, now):
        _stop(lease, machine, provider)
    if volume is not None and machine.words_sent < machine.words_seq and machine.state in _TALKS:
        _say(lease, machine, volume)
    look = _see_row(machine, provider, volume, now) if by_account else _see(machine, provider, volume, now)
    if _is_to_be_asked_again(machine, look, provider):
        _ask(lease, machine, provider)
        return
    if volume is not None and by_account and look.is_read and machine.storage is Storage.VOLUME:
        _bring_home(volume, machine)
    found = _fold(volume, machine, known) if volume is not None and known is not None and look.is_read else None
    with lease.write() as session:
        next_at = machines.note_look(session, machine.id, look, provider.rules)
        if found is not None:
            metrics.note_fold(session, machine, found)
        if next_at is None:
            lease.done(session)
        else:
            lease.again(session, next_at)


def _release(lease: Lease, machine: MachineView, provider: Provider, now: datetime) -> None:
    """Delete it, again and again with growing pauses, until it is proved gone."""
    due = machine_steps.next_release(machine)
    if provider.rules.by_account and due is not None and now < due:
        return
    problem, retry_after, was_known = None, None, False
    try:
        was_known = provider.release(machine.name, machine.outputs_key, tuple(machine.provider_ids))
    except ProviderError as error:
        problem, retry_after = error.message, error.retry_after
    with lease.write() as session:
        machines.note_release_sent(session, machine.id, problem=problem, rules=provider.rules, was_known=was_known)
        machines.note_patience(session, machine.id, retry_after)


def _is_to_be_stopped(machine: MachineView, now: datetime) -> bool:
    """One whose disk is kept; also where somebody started it again, and had time to fetch what lies there."""
    if machine.state is MachineState.STOPPED:
        is_up = machine.presence is Presence.PRESENT and machine.seen_at is not None
        return is_up and machine.seen_at is not None and now >= machine.seen_at + RUNS_AGAIN
    return machine.state is MachineState.HELD and machine.stop_wanted_at is not None


def _stop(lease: Lease, machine: MachineView, provider: Provider) -> None:
    """Asked at each look, until the provider shows it stopped."""
    if machine.presence is Presence.STOPPED:
        return
    try:
        provider.stop(machine.name)
    except ProviderError as error:
        _log.warning("%s could not be stopped: %s", machine.name, error)
        with lease.write() as session:
            machines.note_stop_problem(session, machine.id, error.message)


def _say(lease: Lease, machine: MachineView, volume: FileStore) -> None:
    """Words that could not be written are written at the next look: its deadline does not wait for them."""
    try:
        machines.write_words(volume, machine)
    except (OSError, ProviderError) as error:
        _log.warning("%s could not be told what is wanted of it: %s", machine.name, error)
        return
    with lease.write() as session:
        machines.note_words(session, machine)


def _see(machine: MachineView, provider: Provider, volume: FileStore | None, at: datetime) -> Look:
    """The provider first: a process that ends between the two looks has left its result before it ended."""
    try:
        sighting = provider.look(machine.name, machine.outputs_key, at)
    except ProviderError:
        sighting = Sighting(at, Presence.UNKNOWN)
    if volume is None:
        return Look(sighting, None, None, is_read=False)
    try:
        status, result = machines.read_report(volume, machine)
    except (OSError, ProviderError) as error:
        # One that is to go needs no last word.
        unread = _unread(machine, error, at)
        return replace(unread, sighting=sighting) if machine.state in _GOING else unread
    return Look(sighting, status, result)


def _unread(machine: MachineView, error: Exception, at: datetime) -> Look:
    """What could not be read proves nothing: the machine's loss is not decided on it; its deadline is."""
    _log.warning("The report of %s could not be read: %s", machine.name, error)
    return Look(Sighting(at, Presence.UNKNOWN), None, None, is_read=False)


def _see_row(machine: MachineView, provider: Provider, volume: FileStore | None, at: datetime) -> Look:
    """What the last look at its account said; the volume only where something changed, or somebody waits for it."""
    sighting = machine.sighting or Sighting(at, Presence.UNKNOWN)
    if sighting.presence is Presence.ABSENT and _is_to_be_given_up(machine, provider, sighting, at):
        sighting = _ask_by_id(machine, provider, sighting, at)
    due = machine_steps.next_read(machine, at)
    is_rested = due is not None and at < due and not _is_to_be_given_up(machine, provider, sighting, at)
    if machine.state not in _TALKS or machine.result is not None or is_rested:
        return Look(sighting, None, None, is_read=False, log=_why_not_up(machine, provider, at))
    if volume is None:
        return Look(Sighting(at, Presence.UNKNOWN), None, None, is_read=False)
    try:
        if machine.storage is Storage.POD and machine.presence in LISTED:
            hearing.hear(machine, provider)
        status, result = machines.read_report(volume, machine)
    except (OSError, ProviderError) as error:
        return _unread(machine, error, at)
    is_slow = machine.state is MachineState.HELD and watching.asks_log(machine.seen_at, machine.read_at, at)
    return Look(sighting, status, result, log="" if status else _why_not_up(machine, provider, at, is_slow=is_slow))


def _ask_by_id(machine: MachineView, provider: Provider, unseen: Sighting, at: datetime) -> Sighting:
    """Not listed, often enough: before that counts as proof the provider is asked for this very machine."""
    if machine.provider_id is None or machine.provider_id not in machine.provider_ids:
        return unseen
    try:
        found = provider.find(machine.provider_id)
    except ProviderError as error:
        _log.warning("%s is not listed, and could not be asked for: %s", machine.name, error)
        return Sighting(at, Presence.UNKNOWN)
    return unseen if found is None or found.presence is Presence.GONE else sight_own([found], at)


def _is_to_be_given_up(machine: MachineView, provider: Provider, sighting: Sighting, at: datetime) -> bool:
    """Then what it left is read first: it may have finished since the last read."""
    return decide(machine_steps.facts_of(machine), sighting, provider.rules, at) is not None


def _why_not_up(machine: MachineView, provider: Provider, at: datetime, *, is_slow: bool = False) -> str:
    """The provider's own words on a machine that is slow, or about to be given up, before its trainer was heard."""
    is_failed = machine.state is MachineState.HELD and machine.presence is Presence.ERROR
    is_given_up = is_failed or is_overdue_to_start(machine_steps.facts_of(machine), provider.rules, at)
    if not (is_given_up or is_slow) or machine.started_at is not None or machine.provider_id is None:
        return ""
    try:
        return hearing.quote(hearing.read_some(provider.logs(machine.provider_id)))
    except ProviderError:
        return ""


def _bring_home(volume: FileStore, machine: MachineView) -> None:
    """For looking at, too: what could not be brought comes with the next look."""
    try:
        journals.bring_home(volume, machine.outputs_key)
    except (OSError, ProviderError) as error:
        _log.warning("What %s wrote could not be read: %s", machine.name, error)


def _fold(volume: FileStore, machine: MachineView, known: Fold) -> Fold | None:
    """Curves are for looking at: a file that cannot be read must not keep a machine from being released."""
    try:
        return metrics.read_on(volume, machine, known)
    except (OSError, ProviderError) as error:
        _log.warning("The metrics of %s could not be read: %s", machine.name, error)
        return None


def _is_to_be_asked_again(machine: MachineView, look: Look, provider: Provider) -> bool:
    """Only where asking twice is harmless and the first ask left nothing."""
    is_asked = machine.state is MachineState.ASKED and machine.release_wanted_at is None
    return is_asked and provider.rules.may_ask_again and look.sighting.presence is Presence.ABSENT
