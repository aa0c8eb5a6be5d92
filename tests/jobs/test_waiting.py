"""A run whose lost machine is never proved gone: what it waits for, what is said, and when the next attempt is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from tensorant_app.db.organizations import Organization
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.machines import HOLDS_SLOT, MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.run_words import head_of, machine_trouble_of, trouble_of
from tensorant_app.services import run_details, slots
from tensorant_app.services.run_details import RunDetails
from tensorant_app.services.training import FENCE
from tensorant_app.services.waiting import Waiting, WaitsFor, waiting_of
from tests.faults.site import Site, open_site
from tests.runpod_emulator import Fault

EVERY = 10
"""Seconds of one step of passing time."""


@pytest.fixture
def site() -> Iterator[Site]:
    """Its first machine fails after a while, and no delete call does anything."""
    with open_site(step=60) as found:
        found.account.faults.arm(Fault.HOST_ERROR, seconds=100)
        found.account.faults.arm(Fault.DELETE_REFUSED, times=-1)
        yield found


def lose(site: Site, *, of_slots: int) -> UUID:
    """A run that waits for its second attempt."""
    with unit_of_work() as session:
        session.get_one(Organization, site.console.caller.organization_id).run_slots = of_slots
    run_id = site.console.draft()
    site.console.launch(run_id)
    for _ in range(60):
        site.pass_time(EVERY)
        if site.console.run(run_id).losses:
            break
    assert site.console.run(run_id).state is RunState.QUEUED
    return run_id


def details(site: Site, run_id: UUID) -> RunDetails:
    with reading() as session:
        return run_details.show_details(session, site.console.caller, site.console.run(run_id).project_id, run_id)


def waiting(run_id: UUID) -> Waiting | None:
    with reading() as session:
        return waiting_of(session, session.get_one(Run, run_id))


def machines(site: Site) -> list[str]:
    return [pod.name for pod in site.account.pods.values()]


def test_with_one_slot_it_waits_for_as_long_as_the_machine_may_be_billed_and_says_so(site: Site) -> None:
    run_id = lose(site, of_slots=1)
    for _ in range(180):
        site.pass_time(EVERY)

    assert machines(site) == [f"tune-{run_id}"], "half an hour later"
    machine = site.console.machine(run_id)
    assert machine is not None
    assert machine.state is MachineState.RELEASE_FAILED
    with reading() as session:
        assert slots.show_slots(session, site.console.caller).held_by == (machine.name,)
    seen = details(site, run_id)
    assert (head_of(seen).line, machine_trouble_of(seen).kind) == (
        "Waits for its lost machine: 1 of 1 slots are in use",
        "",
    )
    trouble = trouble_of(seen)
    assert (trouble.kind, trouble.what) == ("lost_machine", "The next attempt waits for the lost machine.")
    assert "it keeps its slot: 1 of 1 is in use" in trouble.story
    assert "with another free slot" in trouble.story
    assert "Look for the machine in RunPod's list" in trouble.story

    site.account.faults.clear()
    for _ in range(18):
        site.pass_time(EVERY)
    assert machines(site) == [f"tune-{run_id}", f"tune-{run_id}-2"], "once it is proved gone"


def test_another_slot_lets_the_next_attempt_start(site: Site) -> None:
    run_id = lose(site, of_slots=1)
    for _ in range(90):
        site.pass_time(EVERY)
    with unit_of_work() as session:
        slots.set_slots(session, site.console.caller, "2")

    site.pass_time(EVERY)

    assert machines(site) == [f"tune-{run_id}", f"tune-{run_id}-2"]


def test_with_two_slots_the_next_attempt_starts_ten_minutes_after_the_release_was_asked(site: Site) -> None:
    run_id = lose(site, of_slots=2)
    machine = site.console.machine(run_id)
    assert machine is not None
    assert machine.release_wanted_at is not None
    found = waiting(run_id)
    assert found is not None
    assert (found.what, found.until) == (WaitsFor.FENCE, machine.release_wanted_at + FENCE)
    assert head_of(details(site, run_id)).line.startswith(f"The next attempt starts at {found.until:%H:%M} UTC")

    while site.now() < machine.release_wanted_at + FENCE - timedelta(seconds=EVERY):
        site.pass_time(EVERY)
        assert machines(site) == [f"tune-{run_id}"]
    site.pass_time(EVERY)
    site.pass_time(EVERY)

    assert machines(site) == [f"tune-{run_id}", f"tune-{run_id}-2"]
    first = next(pod for pod in site.account.pods.values() if pod.name == machine.name)
    assert first.ended is None, "and nobody believes that the first one is gone"
    with reading() as session:
        assert len(slots.show_slots(session, site.console.caller).held_by) == 2
    assert MachineState.RELEASE_FAILED in HOLDS_SLOT


def test_one_that_waits_for_a_time_or_for_others_says_that(site: Site) -> None:
    first, second, later = (site.console.draft() for _ in range(3))
    with unit_of_work() as session:
        session.get_one(Organization, site.console.caller.organization_id).run_slots = 1
        row = session.get_one(Run, later)
        at = site.now() + timedelta(hours=3)
        row.placement = {**(row.placement or {}), "not_before": at.isoformat()}
    for run_id in (first, second, later):
        site.console.launch(run_id)
        site.pass_time(2)

    assert waiting(first) is None
    assert head_of(details(site, second)).line == "Waits for a free slot: 1 of 1 slots are in use"
    assert head_of(details(site, later)).line == f"Starts at {at:%Y-%m-%d %H:%M} UTC at the earliest"
