"""What a launch costs an hour, by the catalog as it is now: shown in the dialog, and compared when it is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlmodel import Session

from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.domain.connections import RUNPOD, ConnectionKind
from tensorant_app.domain.errors import Refused
from tensorant_app.domain.money import FREE, HourlyRate, Money
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.spend import own_disk_month
from tensorant_app.services import gpus
from tensorant_app.services.budgets import Budget, budget_of
from tensorant_app.services.connections import find_connection


@dataclass(frozen=True, slots=True)
class RentedLaunch:
    """What is about to be rented, and at which price."""

    label: str
    gpu_type: str
    count: int
    rate: HourlyRate | None
    """Of the whole machine by the catalog; None where the type is no longer in it."""
    further: Sequence[tuple[str, HourlyRate]]
    """Label and price of what is asked for in turn where it cannot be had."""
    wait: timedelta
    """For so long; zero where a refusal ends the launch."""
    cap: Money | None
    """Cap (est.): if all of the maximum runtime is used on the dearest of them. Not a billing cap."""
    data_center: str
    account: str
    """The last four characters of the key whose account is billed; empty where none is connected."""
    budget: Budget
    own_disk_month: Money | None
    """What its disk costs while it is stopped, where no network volume takes its files; None where one does."""

    @property
    def dearest(self) -> HourlyRate | None:
        """The most that an hour can come to; None where the first choice is no longer on offer."""
        return max((self.rate, *(rate for _, rate in self.further))) if self.rate else None


def rented_launch(session: Session, run: Run, runtime: timedelta = timedelta(0)) -> RentedLaunch | None:
    """None where it starts on this computer; `runtime` is what the cap is reckoned with."""
    place = Placement.of(run.placement or {})
    return rented_at(session, session.get_one(Project, run.project_id), run.settings["method"], place, runtime)


def rented_at(
    session: Session, project: Project, method: str, place: Placement, runtime: timedelta
) -> RentedLaunch | None:
    """The same for any use of a machine."""
    if place.provider != RUNPOD:
        return None
    judged, *others = gpus.judge_placement(session, project, method, place)
    further = [(one.offer.label, one.rate) for one in others if one]
    dearest = max((judged.rate, *(rate for _, rate in further))) if judged else None
    compute = find_connection(session, project.organization_id, ConnectionKind.RUNPOD_COMPUTE)
    storage = find_connection(session, project.organization_id, ConnectionKind.RUNPOD_STORAGE)
    chosen = place.gpu_types[0] if place.gpu_types else "No GPU"
    return RentedLaunch(
        judged.offer.label if judged else chosen,
        chosen,
        place.gpu_count,
        judged.rate if judged else None,
        further,
        place.wait,
        dearest.cost_of(runtime) if dearest else None,
        storage.shown["data_center"] if storage else "",
        compute.last_four if compute else "",
        budget_of(session, project),
        None if storage else own_disk_month(place.disk_gb),
    )


def require_shown_price(session: Session, run: Run, shown: HourlyRate | None) -> HourlyRate:
    """The price that holds now, free on this computer; `Refused` with both numbers where it rose since it was shown."""
    return require_price(rented_launch(session, run), shown, what="run")


def require_price(rented: RentedLaunch | None, shown: HourlyRate | None, *, what: str) -> HourlyRate:
    """The same of any launch; `what` is the noun in its sentences."""
    if rented is None:
        return FREE
    dearest = rented.dearest
    if dearest is None:
        raise Refused(f"{rented.label} is not on offer now.", ["Try again in a minute, or choose another GPU."])
    if shown is None:
        raise Refused(
            f"This {what} costs {dearest}.",
            ["Launch it where that price is shown first: on its page in the console."],
        )
    if dearest > shown:
        raise Refused(
            f"The price rose from {shown} to {dearest} since it was shown.",
            ["Nothing was launched. Look at the new price and confirm again."],
        )
    return dearest
