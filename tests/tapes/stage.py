"""The console as it stands when a tape begins: a draft, or a run that is at work, or one whose machine is being released."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlmodel import select

from tensorant_app.db.connections import Connection
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import promise
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import RUNPOD, ConnectionKind, ConnectionState
from tensorant_app.domain.errors import ProviderError
from tensorant_app.domain.machines import MachineState, Presence, Use
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import RunState
from tensorant_app.providers.runpod_reading import read_offers
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import accounts, adapters, machines, offers, runs
from tensorant_app.services.connections import find_connection, installation_of
from tensorant_app.services.machines import POLL, Order
from tests import factories
from tests.faults.console import Console
from tests.tapes.moments import read_clock
from tests.tapes.tape import Tape
from tests.tapes.trainer import Trainer
from tests.tapes.wire import TapeTransport, gpu_count, usual_gpu

_LIMIT = "5.00"
_STATES = {state.value.replace("_", " "): state for state in RunState}
_DATA_CENTER = re.compile(r"\b[A-Z]{2,3}-[A-Z]{2,4}-\d\b")
_HAS_ADAPTER = frozenset({RunState.ADAPTER_READY, RunState.EVALUATING, RunState.COMPLETED, RunState.NO_GAIN})


def set_up(console: Console, tape: Tape, wire: TapeTransport, volume: FolderStore) -> UUID:
    """The run's id. A tape that names a machine, or says that its launch is being checked, begins in the middle of its life."""
    about = tape.run
    account_id = connect(console, _data_center(tape), tape)
    hours = hours_of(tape) or 2.0
    limit = _first(about, "list_price_limit", "price_limit", "gpu_list_price_limit")
    gpu = _gpu_type(tape)
    waits = float(about.get("wait_hours") or (72 if about.get("wait_for_capacity") else 0))
    run_id = console.draft(
        limit=str(limit) if limit is not None else _LIMIT,
        hours=hours,
        gpu_types=(gpu, *[str(one) for one in about.get("further_gpus", ())]),
        gpu_count=gpu_count(tape),
        wait=timedelta(hours=waits),
    )
    wire.run_name = str(about.get("pod_name") or about.get("name") or _name_in(tape) or f"tune-{about.get('id')}")
    wire.our_name = f"tune-{run_id}"
    if about.get("pod") or _is_checking(about):
        _rent(console, tape, wire, run_id, account_id, volume)
    return run_id


def hours_of(tape: Tape) -> float | None:
    """The maximum runtime that a tape names."""
    hours, minutes = tape.run.get("max_runtime_hours"), tape.run.get("max_runtime_minutes")
    if hours is None and minutes is None:
        return None
    return min(72.0, max(0.1, float(hours) if hours is not None else float(minutes) / 60))


def connect(console: Console, data_center: str, tape: Tape | None = None) -> UUID:
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
    try:
        seen = door.provider.offers()
    except ProviderError:
        # The form still shows what it was told on a better day.
        seen = read_offers({"gpus": [usual_gpu(tape)]}) if tape is not None else []
    with unit_of_work() as session:
        offers.note_offers(session, account_id, 1, seen, "")
    return account_id


def accept_key() -> None:
    """What its check would find, for which no tape has replies."""
    with unit_of_work() as session:
        for row in session.exec(select(Connection).where(Connection.kind == ConnectionKind.RUNPOD_COMPUTE)):
            row.state = ConnectionState.OK


def _rent(
    console: Console, tape: Tape, wire: TapeTransport, run_id: UUID, account_id: UUID, volume: FolderStore
) -> None:
    """The rows of a launch that was made when the run began."""
    about = tape.run
    told = _first(about, "started", "started_at", "launched", "created")
    began = read_clock(str(told)) if told else tape.starts
    state = _state_of(about)
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        order = _order(session, run, about, account_id, began)
        machines.ask_machine(session, order, "train")
        wire.environments[order.name] = {"TENSORANT_INSTALLATION": installation_of(session)}
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        run.state, run.attempt, run.started_at, run.evaluates = state, 1, began, False
        # A tape without a reply to a create call leaves no room for a next attempt: its loss is the second one.
        run.losses = int(about.get("losses", not tape.has("POST", "/v2/pods")))
        if _is_checking(about):
            row = _machine(session, run_id)
            row.ask_sent_at = row.answer_lost_at = began
        else:
            _hold(session, run_id, about, began)
        # It has been looked at all the while.
        promise(session, POLL, account_id)
    if _is_checking(about):
        return
    wire.exists.add(str(about["pod"]))
    wire.names[str(about["pod"])] = wire.our_name
    wire.began[str(about["pod"])] = began
    if about.get("released"):
        wire.ended_at[str(about["pod"])] = read_clock(str(about["released"]))
    if state in _HAS_ADAPTER:
        _take_adapter(console, run_id, volume)
    if state not in runs.KEEPS_MACHINE or "releas" in str(about.get("state", "")).lower():
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, run_id)


def _order(session: Any, run: Run, about: Any, account_id: UUID, began: datetime) -> Order:
    rate = HourlyRate.dollars(str(_first(about, "cost", "price", "rate") or "0.86"))
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
        gpu_count=place.gpu_count,
        rate=rate,
        rate_limit=max(rate, place.rate_limit or rate),
        data_center=storage.shown["data_center"],
    )


def _hold(session: Any, run_id: UUID, about: Any, began: datetime) -> None:
    row = _machine(session, run_id)
    row.state, row.ask_sent_at, row.held_at = MachineState.HELD, began, began
    # Of one that is still being launched nothing was heard yet.
    row.started_at = None if _state_of(about) is RunState.LAUNCHING else began
    row.provider_id, row.provider_ids, row.billed_ids = about["pod"], [about["pod"]], [about["pod"]]
    row.presence, row.provider_status, row.seen_at, row.known_at = Presence.PRESENT, "RUNNING", began, began


def _machine(session: Any, run_id: UUID) -> Machine:
    found: Machine = session.exec(select(Machine).where(Machine.subject_id == run_id)).one()
    return found


def _take_adapter(console: Console, run_id: UUID, volume: FolderStore) -> None:
    machine = console.machine(run_id)
    assert machine is not None
    Trainer(volume, 90).finish(machine, 1, console.now().isoformat())
    taken = adapters.find_on(volume, run_id, 1)
    assert taken is not None
    with unit_of_work() as session:
        adapters.add_adapter(session, session.get_one(Run, run_id), taken)


def _is_checking(about: Any) -> bool:
    return not about.get("pod") and str(about.get("state", "")).lower().startswith("checking")


def _state_of(about: Any) -> RunState:
    told = str(about.get("state", "training")).lower().replace("_", " ").replace("release failed", "releasing")
    if told.startswith("checking"):
        return RunState.LAUNCHING
    by_length = sorted(_STATES.items(), key=lambda pair: -len(pair[0]))
    found = next((state for word, state in by_length if word in told), None)
    # A machine that is going belongs to a run that is over.
    return found or (RunState.CANCELLED if "releas" in told else RunState.TRAINING)


def _first(about: Any, *names: str) -> Any:
    return next((about[name] for name in names if about.get(name) is not None), None)


def _bodies(tape: Tape) -> Sequence[dict[str, Any]]:
    """What the tape's replies say, those about machines before the catalog."""
    found = [one.body for one in tape.replies if isinstance(one.body, dict)]
    return sorted(found, key=lambda body: "gpus" in body)


def _name_in(tape: Tape) -> str | None:
    made = [one for one in tape.replies if one.method == "POST" and isinstance(one.body, dict)]
    own = [one.body.get("name") for one in made] or [tape.pods().get(str(tape.run.get("pod")))]
    return next((name for name in own if isinstance(name, str)), None) if not tape.run.get("id") else None


def _data_center(tape: Tape) -> str:
    told = _first(tape.run, "data_center", "dataCenterId", "dataCenter")
    volume = tape.run.get("volume")
    if told is None and isinstance(volume, dict):
        told = _first(volume, "data_center", "dataCenterId", "dataCenter")
    for body in _bodies(tape):
        said = _DATA_CENTER.search(str(body.get("detail", "")))
        told = told or body.get("dataCenterId") or (said[0] if said else None)
        for gpu in body.get("gpus") or []:
            places = gpu.get("dataCenters") if isinstance(gpu, dict) else None
            told = told or next((one.get("id") for one in places or [] if isinstance(one, dict)), None)
    return str(told or "EU-TEST-1")


def _gpu_type(tape: Tape) -> str:
    told = tape.run.get("gpu")
    found = told.get("id") if isinstance(told, dict) else told
    for body in _bodies(tape):
        gpu = body.get("gpu")
        found = found or (gpu.get("id") if isinstance(gpu, dict) else None)
        listed = [one for one in body.get("gpus") or [] if isinstance(one, dict)]
        found = found or next((one.get("id") for one in listed), None)
    return str(found or "NVIDIA L40S")
