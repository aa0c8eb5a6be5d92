"""What a launch will take, as its dialog says before anything is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.services import estimates, runs
from tensorant_app.services.estimates import Estimate
from tensorant_app.services.lookup import own_row
from tensorant_app.services.prices import RentedLaunch, rented_launch
from tensorant_app.services.slots import count_slots


@dataclass(frozen=True, slots=True)
class LaunchView:
    """Everything that the person who confirms should know."""

    run_id: UUID
    project_id: UUID
    name: str
    estimate: Estimate
    maximum_runtime: timedelta
    trial: TrialSettings | None
    """The bounds of a small training trial; the estimate is then of the full run that it measures."""
    not_before: datetime | None
    """A time that has not come yet."""
    slots: int
    slots_held: int
    """Where all are held, the run waits as Queued."""
    evaluates: bool
    rented: RentedLaunch | None
    """None where it starts on this computer, free."""


def show_launch(session: Session, caller: Caller, run_id: UUID) -> LaunchView:
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    if run.state is not RunState.DRAFT:
        raise Conflict(f"This run is {run.state.value.replace('_', ' ')} already. Open it to see how it goes.")
    limit, held = count_slots(session, run.organization_id)
    not_before = runs.placement_of(run).not_before
    return LaunchView(
        run_id=run.id,
        project_id=run.project_id,
        name=run.name,
        estimate=estimates.estimate_run(session, caller, run_id),
        maximum_runtime=runs.maximum_runtime(run),
        trial=TrialSettings.of(run.trial) if run.trial else None,
        not_before=not_before if not_before and not_before > now_of(session) else None,
        slots=limit,
        slots_held=held,
        evaluates=run.evaluates,
        rented=rented_launch(session, run, runs.maximum_runtime(run)),
    )
