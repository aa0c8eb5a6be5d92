"""The life of every machine: ask once, look, release until it is proved gone."""

from __future__ import annotations

import logging
from datetime import timedelta

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import AuthFailed, Denied, ProviderError, Transient, Unknown
from tensorant_app.domain.machines import LIFECYCLE, MachineState, Presence, Sighting
from tensorant_app.providers.base import FileStore, Provider
from tensorant_app.services import machines, metrics
from tensorant_app.services.connections import provider_for, volume_for
from tensorant_app.services.machines import Look, MachineView
from tensorant_app.services.metrics import Fold

_SOON = timedelta(seconds=1)
_log = logging.getLogger(__name__)


@actor(machines.TEND, queue="fast")
def tend(lease: Lease) -> None:
    """One look at one machine and what follows from it."""
    with reading() as session:
        machine = machines.see_machine(session, lease.subject_id)
        if machine is not None:
            provider = provider_for(session, machine.organization_id)
            volume = volume_for(session, machine.organization_id)
            known = metrics.stored_fold(session, machine)
    if machine is None or machine.state in LIFECYCLE.final:
        with lease.write() as session:
            lease.done(session)
    elif machine.state is MachineState.ASKED and machine.ask_sent_at is None:
        _ask_or_drop(lease, machine, provider)
    else:
        _look(lease, machine, provider, volume, known)


def _ask_or_drop(lease: Lease, machine: MachineView, provider: Provider) -> None:
    if machine.release_wanted_at is not None:
        with lease.write() as session:
            machines.note_never_asked(session, machine.id)
            lease.done(session)
        return
    _ask(lease, machine, provider)


def _ask(lease: Lease, machine: MachineView, provider: Provider) -> None:
    """The paid call: its right is committed first, so that a crash anywhere leaves a machine to look for, never two."""
    with lease.write() as session:
        may_ask = machines.take_ask(session, machine.id, may_ask_again=provider.rules.may_ask_again)
        if not may_ask:
            lease.again(session, clock.now())
    if not may_ask:
        return
    try:
        rented = provider.create(machine.request)
    except (Denied, AuthFailed) as refusal:
        with lease.write() as session:
            is_capacity = isinstance(refusal, Denied) and refusal.is_capacity
            machines.note_denied(session, machine.id, refusal.message, is_capacity=is_capacity)
            lease.done(session)
    except (Unknown, Transient):
        with lease.write() as session:
            lease.again(session, clock.now() + _SOON)
    else:
        with lease.write() as session:
            machines.note_rented(session, machine.id, rented)
            lease.again(session, clock.now() + _SOON)


def _look(lease: Lease, machine: MachineView, provider: Provider, volume: FileStore, known: Fold | None) -> None:
    if machine.state in {MachineState.RELEASING, MachineState.RELEASE_FAILED}:
        _release(lease, machine, provider)
    look = _see(machine, provider, volume)
    if _is_to_be_asked_again(machine, look, provider):
        _ask(lease, machine, provider)
        return
    found = _fold(volume, machine, known) if known is not None else None
    with lease.write() as session:
        next_at = machines.note_look(session, machine.id, look, provider.rules)
        if found is not None:
            metrics.note_fold(session, machine, found)
        if next_at is None:
            lease.done(session)
        else:
            lease.again(session, next_at)


def _release(lease: Lease, machine: MachineView, provider: Provider) -> None:
    problem = None
    try:
        provider.release(machine.name, machine.outputs_key)
    except ProviderError as error:
        problem = error.message
    with lease.write() as session:
        machines.note_release_sent(session, machine.id, problem=problem)


def _see(machine: MachineView, provider: Provider, volume: FileStore) -> Look:
    """The provider first: a process that ends between the two looks has left its result before it ended."""
    at = clock.now()
    try:
        sighting = provider.look(machine.name, machine.outputs_key, at)
    except ProviderError:
        sighting = Sighting(at, Presence.UNKNOWN)
    status, result = machines.read_report(volume, machine)
    return Look(sighting, status, result)


def _fold(volume: FileStore, machine: MachineView, known: Fold) -> Fold | None:
    """Curves are for looking at: a file that cannot be read must not keep a machine from being released."""
    try:
        return metrics.read_on(volume, machine, known)
    except OSError as error:
        _log.warning("The metrics of %s could not be read: %s", machine.name, error)
        return None


def _is_to_be_asked_again(machine: MachineView, look: Look, provider: Provider) -> bool:
    """Only where asking twice is harmless and the first ask left nothing."""
    is_asked = machine.state is MachineState.ASKED and machine.release_wanted_at is None
    return is_asked and provider.rules.may_ask_again and look.sighting.presence is Presence.ABSENT
