"""What a launch will take, as its dialog says before anything is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Organization
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.domain.connections import RUNPOD, ConnectionKind
from tensorant_app.domain.errors import Conflict, Refused
from tensorant_app.domain.machines import HOLDS_SLOT
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import FREE, HourlyRate, Money
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.runs import RunState
from tensorant_app.services import estimates, gpus
from tensorant_app.services.budgets import Budget, budget_of
from tensorant_app.services.connections import find_connection
from tensorant_app.services.estimates import Estimate
from tensorant_app.services.lookup import own_row


@dataclass(frozen=True, slots=True)
class LaunchView:
    """Everything that the person who confirms should know."""

    run_id: UUID
    project_id: UUID
    name: str
    estimate: Estimate
    maximum_runtime_hours: float
    slots: int
    slots_held: int
    """Where all are held, the run waits as Queued."""
    evaluates: bool
    rented: RentedLaunch | None
    """None where it starts on this computer, free."""


@dataclass(frozen=True, slots=True)
class RentedLaunch:
    """What is about to be rented, and at which price."""

    label: str
    gpu_type: str
    count: int
    rate: HourlyRate | None
    """Of the whole machine by the catalog; None where the type is no longer in it."""
    cap: Money | None
    """Cap (est.): if all of the maximum runtime is used. Not a billing cap."""
    data_center: str
    account: str
    """The last four characters of the key whose account is billed; empty where none is connected."""
    budget: Budget


def show_launch(session: Session, caller: Caller, run_id: UUID) -> LaunchView:
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    if run.state is not RunState.DRAFT:
        raise Conflict(f"This run is {run.state.value.replace('_', ' ')} already. Open it to see how it goes.")
    organization = session.get_one(Organization, run.organization_id)
    held = select(func.count()).where(
        Machine.organization_id == run.organization_id,
        col(Machine.state).in_(list(HOLDS_SLOT)),
    )
    return LaunchView(
        run_id=run.id,
        project_id=run.project_id,
        name=run.name,
        estimate=estimates.estimate_run(session, caller, run_id),
        maximum_runtime_hours=run.settings["maximum_runtime_hours"],
        slots=organization.run_slots,
        slots_held=session.exec(held.select_from(Machine)).one(),
        evaluates=run.evaluates,
        rented=_rented(session, run),
    )


def require_shown_price(session: Session, run: Run, shown: HourlyRate | None) -> HourlyRate:
    """The price that holds now, free on this computer; `Refused` with both numbers where it rose since it was shown."""
    rented = _rented(session, run)
    if rented is None:
        return FREE
    if rented.rate is None:
        raise Refused(
            f"{rented.label} is not on offer now.", ["Try again in a minute, or configure another run like this one."]
        )
    if shown is None:
        raise Refused(
            f"This run costs {rented.rate}.", ["Launch it where that price is shown first: on its page in the console."]
        )
    if rented.rate > shown:
        raise Refused(
            f"The price rose from {shown} to {rented.rate} since it was shown.",
            ["Nothing was launched. Look at the new price and confirm again."],
        )
    return rented.rate


def _rented(session: Session, run: Run) -> RentedLaunch | None:
    place = Placement.of(run.placement or {})
    if place.provider != RUNPOD:
        return None
    project = session.get_one(Project, run.project_id)
    judged = gpus.judge_placement(session, project, run.settings["method"], place)
    compute = find_connection(session, run.organization_id, ConnectionKind.RUNPOD_COMPUTE)
    storage = find_connection(session, run.organization_id, ConnectionKind.RUNPOD_STORAGE)
    chosen = place.gpu_types[0] if place.gpu_types else "No GPU"
    return RentedLaunch(
        judged.offer.label if judged else chosen,
        chosen,
        place.gpu_count,
        judged.rate if judged else None,
        judged.rate.cost_of(timedelta(hours=run.settings["maximum_runtime_hours"])) if judged else None,
        storage.shown["data_center"] if storage else "",
        compute.last_four if compute else "",
        budget_of(session, project),
    )
