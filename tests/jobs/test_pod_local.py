"""A run on a Pod without a network volume, from launch to the adapter that a person carries over; the real client, an emulated RunPod."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app.db.machines import MachineEvent
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.machines import LATE, MachineState, Use
from tensorant_app.domain.runs import RunPurpose, RunReason, RunState
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.pages.recovery_words import ways_of
from tensorant_app.providers.base import LogLine
from tensorant_app.services import adapters, metrics, pod_files, recoveries, runs
from tensorant_app.services.connections import home_volume
from tensorant_app.services.machines import MachineView
from tensorant_app.services.spend import machine_spend
from tests.faults.site import Site, open_site
from tests.runpod_emulator import Fault
from trainer.contract import METRICS, seal_folder

LONG, EVERY = 600, 10
"""Seconds of passing time, and of one step of it."""


@pytest.fixture
def site() -> Iterator[Site]:
    with open_site(has_volume=False) as found:
        yield found


def launch(site: Site, **values: object) -> UUID:
    run_id = site.console.draft(**values)  # type: ignore[arg-type]
    site.console.launch(run_id)
    return run_id


def until(site: Site, run_id: UUID, state: RunState, seconds: float = LONG) -> Run:
    for _ in range(int(seconds / EVERY)):
        site.pass_time(EVERY)
        if site.console.run(run_id).state is state:
            break
    run = site.console.run(run_id)
    assert run.state is state, run.sentence
    return run


def machine_of(site: Site, run_id: UUID) -> MachineView:
    machine = site.console.machine(run_id)
    assert machine is not None
    return machine


def verbs(run_id: UUID, machine: MachineView) -> list[str]:
    with reading() as session:
        events = session.exec(select(MachineEvent).where(MachineEvent.subject_id == machine.id)).all()
    return [event.verb for event in events]


def carry_over(site: Site, run_id: UUID) -> None:
    """What the checks of an uploaded zip come to; they have tests of their own."""
    folder = home_volume().fetch(f"runs/{run_id}/adapter/uploaded")
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    seal_folder(folder)
    taken = adapters.take_from(home_volume(), run_id, 0, f"runs/{run_id}/adapter/uploaded")
    assert taken is not None
    with unit_of_work() as session:
        adapters.recover(session, session.get_one(Run, run_id), taken, "It was checked and taken.")


def test_its_files_come_with_the_create_call_and_its_log_says_how_it_goes(site: Site) -> None:
    run_id = launch(site)
    until(site, run_id, RunState.TRAINING)
    site.pass_time(40)

    (pod,) = site.account.pods.values()
    assert pod.spec["mounts"] == {"persistent": {"size": 60, "path": "/workspace"}}
    assert "dataCenterIds" not in pod.spec
    status = machine_of(site, run_id).status
    assert status is not None
    assert status.step > 0
    lines = (home_volume().fetch(f"runs/{run_id}/out/1") / METRICS).read_text().splitlines()
    assert len(lines) == len(set(lines)) > 0
    with reading() as session:
        assert metrics.stored_fold(session, machine_of(site, run_id)) is not None


def test_a_finished_adapter_stops_the_pod_and_waits_for_a_person(site: Site) -> None:
    run_id = launch(site)
    run = until(site, run_id, RunState.NEEDS_RECOVERY)
    site.pass_time(40)

    machine = machine_of(site, run_id)
    (pod,) = site.account.pods.values()
    assert (run.reason, machine.state, pod.status) == (RunReason.ON_POD.value, MachineState.STOPPED, "EXITED")
    assert [zip.name for zip in (site.account.folder / "pods" / pod.id).rglob("adapter.zip")] == ["adapter.zip"]
    with reading() as session:
        ways = recoveries.show_recovery(session, site.console.caller, run_id)
    assert (ways.is_pod_local, ways.has_zip) == (True, True)

    carry_over(site, run_id)
    site.pass_time(120)

    assert machine_of(site, run_id).state in {MachineState.RELEASING, MachineState.RELEASED}
    assert not site.account.alive()


def test_a_stopped_pods_disk_is_in_the_estimate(site: Site) -> None:
    run_id = launch(site)
    until(site, run_id, RunState.NEEDS_RECOVERY)
    site.pass_time(60)
    with reading() as session:
        before = machine_spend(session, Use.RUN, run_id).estimated

    site.clock.advance(hours=730)
    with reading() as session:
        after = machine_spend(session, Use.RUN, run_id).estimated

    assert 11.9 < (after - before).micros / 1e6 < 12.1, "60 GB for a month at $0.20"


def test_an_overrun_stops_the_pod_and_its_newest_checkpoint_can_be_handed_in(site: Site) -> None:
    site.script.step = 500
    run_id = launch(site, hours=0.5)
    run = until(site, run_id, RunState.NEEDS_RECOVERY, seconds=3_000)
    site.pass_time(60)

    assert run.reason == RunReason.DEADLINE
    assert "longer limit" in (run.sentence or "")
    assert machine_of(site, run_id).state is MachineState.STOPPED
    (pod,) = site.account.pods.values()
    assert [zip.name for zip in (site.account.folder / "pods" / pod.id).rglob("*.zip")] == ["adapter.zip"]
    with reading() as session:
        ways = recoveries.show_recovery(session, site.console.caller, run_id)
    assert (ways.has_zip, ways.unfinished) == (True, 3)
    words = ways_of(ways, None)
    assert words.next == "verify"
    assert "The adapter of its newest checkpoint, step 3, lies on the stopped Pod" in words.hand_in
    site.pass_time(LATE.total_seconds() + 300)
    site.pass_time(300)
    assert [pod.status for pod in site.account.pods.values()] == ["EXITED"], "neither the row nor the sweep deletes it"
    with unit_of_work() as session, pytest.raises(Conflict, match="own disk"):
        recoveries.extend_run(session, site.console.caller, run_id, 5.0)

    with unit_of_work() as session:
        runs.cancel_run(session, site.console.caller, run_id)
    site.pass_time(5)
    site.pass_time(120)

    assert not site.account.alive()


def test_one_that_cannot_be_stopped_is_kept_until_its_time_is_over_and_everybody_is_told(site: Site) -> None:
    site.account.faults.arm(Fault.NO_STOP)
    run_id = launch(site)
    until(site, run_id, RunState.NEEDS_RECOVERY)
    site.pass_time(60)

    machine = machine_of(site, run_id)
    assert machine.state is MachineState.HELD
    assert "could not be stopped" in (machine.sentence or "")
    assert verbs(run_id, machine).count("stop_failed") == 1

    site.pass_time((machine.deadline + LATE - site.now()).total_seconds() + 5)
    site.pass_time(120)

    assert not site.account.alive()


def test_nobody_can_speak_to_it(site: Site) -> None:
    run_id = launch(site)
    until(site, run_id, RunState.TRAINING)

    for act in (
        lambda s: recoveries.pause_run(s, site.console.caller, run_id),
        lambda s: recoveries.extend_run(s, site.console.caller, run_id, 5.0),
    ):
        with unit_of_work() as session, pytest.raises(Conflict, match="cannot speak to its Pod"):
            act(session)


def test_a_lost_pod_is_followed_by_an_attempt_from_the_beginning(site: Site) -> None:
    site.account.faults.arm(Fault.HOST_LOST, seconds=100)
    run_id = launch(site)
    until(site, run_id, RunState.NEEDS_RECOVERY, seconds=3_000)

    assert site.console.run(run_id).losses == 1
    assert machine_of(site, run_id).attempt == 2
    assert {(one.attempt, one.first) for one in site.script.trained} >= {(2, 0)}


def test_a_console_that_was_away_hears_everything_afterwards(site: Site) -> None:
    run_id = launch(site)
    until(site, run_id, RunState.TRAINING)
    site.clock.advance(minutes=20)
    site.world.tick()
    site.console.restart()

    until(site, run_id, RunState.NEEDS_RECOVERY)

    lines = (home_volume().fetch(f"runs/{run_id}/out/1") / METRICS).read_text().splitlines()
    assert len(lines) == site.script.steps


def test_a_trial_needs_nobody(site: Site) -> None:
    run_id = site.console.draft()
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        run.purpose, run.trial, run.evaluates = RunPurpose.TRIAL, TrialSettings().as_values(), False
    site.console.launch(run_id, evaluates=False)

    until(site, run_id, RunState.COMPLETED)
    site.pass_time(120)

    assert not site.account.alive()


def test_lines_that_are_heard_twice_change_nothing(site: Site) -> None:
    run_id = launch(site)
    until(site, run_id, RunState.TRAINING)
    site.pass_time(60)
    machine = machine_of(site, run_id)
    folder = home_volume().fetch(machine.outputs_key)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (pod,) = site.account.pods.values()

    heard = [line for line in pod.logs.lines if line.source == "container"]
    (folder / "heard.json").unlink()
    pod_files.note_lines(machine, [LogLine(one.at, one.source, one.text, one.cursor) for one in heard])

    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: after[name] for name in before if name != "heard.json"} == {
        name: text for name, text in before.items() if name != "heard.json"
    }
