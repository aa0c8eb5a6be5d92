"""The console as it stands when a tape begins: a draft, or a run that is at work, or one whose machine is being released."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from tensorant_app.db.connections import Connection
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import RUNPOD, ConnectionKind
from tensorant_app.domain.machines import MachineState, Presence, Use
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import RunState
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import accounts, adapters, machines, offers, runs
from tensorant_app.services.connections import find_connection, installation_of
from tensorant_app.services.machines import Order
from tests import factories
from tests.faults.console import Console
from tests.tapes.tape import Tape
from tests.tapes.trainer import Trainer
from tests.tapes.wire import TapeTransport

_LIMIT = "5.00"
_STATES = {state.value.replace("_", " "): state for state in RunState}


def set_up(console: Console, tape: Tape, wire: TapeTransport, volume: FolderStore) -> UUID:
    """The run's id. A tape that names a machine begins in the middle of its life."""
    about = tape.run
    account_id = connect(console, _data_center(tape))
    hours = float(about.get("max_runtime_hours", 2.0))
    limit = about.get("list_price_limit")
    gpu = _gpu_type(tape)
    run_id = console.draft(limit=str(limit) if limit is not None else _LIMIT, hours=hours, gpu_types=(gpu,))
    wire.run_name, wire.our_name = about.get("pod_name") or f"tune-{about.get('id')}", f"tune-{run_id}"
    if about.get("pod"):
        _rent(console, tape, wire, run_id, account_id, volume)
    return run_id


def connect(console: Console, data_center: str) -> UUID:
    """Both connections and a catalog, as if all had been checked; the account's id."""
    organization_id = console.caller.organization_id
    assert organization_id is not None
    with unit_of_work() as session:
        facts = {"name": "tape", "size_gb": 500, "data_center": data_center, "type": "STANDARD"}
        shown = {"data_center": data_center, "volume_id": "vol_t1"}
        storage = factories.connect(session, organization_id, ConnectionKind.RUNPOD_STORAGE, facts=facts)
        storage.shown = shown
        account_id = factories.connect(session, organization_id).id
    with reading() as session:
        door = accounts.open_door(session, account_id)
    assert door is not None
    seen = door.provider.offers()
    with unit_of_work() as session:
        offers.note_offers(session, account_id, 1, seen, "")
    return account_id


def _rent(
    console: Console, tape: Tape, wire: TapeTransport, run_id: UUID, account_id: UUID, volume: FolderStore
) -> None:
    """The rows of a launch that was made when the run began."""
    about = tape.run
    began = datetime.fromisoformat(about["started"]) if about.get("started") else tape.starts
    state = _state_of(about)
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        order = _order(session, run, about, account_id, began)
        machines.ask_machine(session, order, "train")
        wire.environments[order.name] = {"TENSORANT_INSTALLATION": installation_of(session)}
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        run.state, run.attempt, run.started_at, run.evaluates = RunState.TRAINING, 1, began, False
        # A tape without a reply to a create call leaves no room for a next attempt: its loss is the second one.
        run.losses = int(about.get("losses", not tape.has("POST", "/v2/pods")))
        _hold(session, run_id, about, began)
    wire.exists.add(about["pod"])
    if about.get("released"):
        wire.ended_at[about["pod"]] = datetime.fromisoformat(about["released"])
    if state is RunState.ADAPTER_READY:
        _take_adapter(console, run_id, volume)
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        run.state = state
        if "releas" in str(about.get("state", "")).lower():
            machines.want_release(session, Use.RUN, run_id)


def _order(session: Any, run: Run, about: Any, account_id: UUID, began: datetime) -> Order:
    rate = HourlyRate.dollars(str(about.get("cost", "0.86")))
    connection = session.get_one(Connection, account_id)
    place = runs.placement_of(run)
    deadline = began + runs.maximum_runtime(run)
    storage = find_connection(session, connection.organization_id, ConnectionKind.RUNPOD_STORAGE)
    assert storage is not None
    return Order(
        run.organization_id,
        Use.RUN,
        run.id,
        1,
        RUNPOD,
        place.gpu_types[0],
        deadline,
        connection_id=account_id,
        rate=rate,
        rate_limit=max(rate, place.rate_limit or rate),
        data_center=storage.shown["data_center"],
    )


def _hold(session: Any, run_id: UUID, about: Any, began: datetime) -> None:
    from sqlmodel import select

    row = session.exec(select(Machine).where(Machine.subject_id == run_id)).one()
    row.state, row.ask_sent_at, row.held_at, row.started_at = MachineState.HELD, began, began, began
    row.provider_id, row.provider_ids, row.billed_ids = about["pod"], [about["pod"]], [about["pod"]]
    row.presence, row.provider_status, row.seen_at = Presence.PRESENT, "RUNNING", began


def _take_adapter(console: Console, run_id: UUID, volume: FolderStore) -> None:
    machine = console.machine(run_id)
    assert machine is not None
    Trainer(volume, 90).finish(machine, 1, console.now().isoformat())
    taken = adapters.find_on(volume, run_id, 1)
    assert taken is not None
    with unit_of_work() as session:
        adapters.add_adapter(session, session.get_one(Run, run_id), taken)


def _state_of(about: Any) -> RunState:
    told = str(about.get("state", "training")).lower()
    return next((state for word, state in _STATES.items() if told.startswith(word)), RunState.TRAINING)


def _data_center(tape: Tape) -> str:
    bodies = [one.body for one in tape.replies if isinstance(one.body, dict)]
    return next((body["dataCenterId"] for body in bodies if body.get("dataCenterId")), "EU-TEST-1")


def _gpu_type(tape: Tape) -> str:
    bodies = [one.body for one in tape.replies if isinstance(one.body, dict)]
    for body in bodies:
        if body.get("gpus"):
            return str(body["gpus"][0]["id"])
        if isinstance(body.get("gpu"), dict):
            return str(body["gpu"]["id"])
    return "NVIDIA L40S"
