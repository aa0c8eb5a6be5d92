"""The GPUs that a run's form offers: which can start now, why the others cannot, and what the chosen one costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.domain.connections import LOCAL, RUNPOD, ConnectionKind
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.offers import NEVER, Judged, Wanted, judge_all
from tensorant_app.domain.place_form import COUNTS, FURTHER, LIMITS, place_complaints
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import BYTES_PER_PARAMETER, memory_needed
from tensorant_app.domain.run_form import read_settings, read_trial
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.services.connections import find_connection, provider_name
from tensorant_app.services.lookup import own_row
from tensorant_app.services.offers import catalog_of, switched_off

_WORKED = (RunState.COMPLETED, RunState.NO_GAIN)
_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class GpuListView:
    """What the form shows of RunPod; without a connection only that."""

    is_connected: bool
    judged: Sequence[Judged]
    seen_at: datetime | None
    trouble: str
    count: int
    chosen: Judged | None
    runtime: timedelta
    further: Sequence[Judged] = ()
    """Asked for in turn where the chosen one cannot be had."""

    @property
    def cap(self) -> Money | None:
        """Cap (est.): the price of the dearest choice if all of the maximum runtime is used."""
        dearest = max((one.rate for one in [self.chosen, *self.further] if one), default=None)
        return dearest.cost_of(self.runtime) if self.chosen and dearest else None


def list_gpus(session: Session, caller: Caller, project_id: UUID, typed: Mapping[str, str]) -> GpuListView:
    """For the form as typed; a field that cannot be read counts as its default."""
    caller.require(Permission.SEE)
    return _list(session, own_row(session, caller, Project, project_id, "project"), typed)


def complete_form(session: Session, caller: Caller, project_id: UUID, typed: Mapping[str, str]) -> dict[str, str]:
    """The same form with a GPU where RunPod is chosen and none is yet: the cheapest that is recommended."""
    caller.require(Permission.SEE)
    return _complete(session, own_row(session, caller, Project, project_id, "project"), typed)


def default_place(session: Session, project: Project, typed: Mapping[str, str]) -> dict[str, str]:
    """Where a new form begins: at RunPod where an account is connected, else here."""
    name = provider_name(session, project.organization_id)
    return _complete(session, project, {**typed, "provider": name, "gpu_type": ""})


def judge_placement(session: Session, project: Project, method: str, placement: Placement) -> list[Judged | None]:
    """Its choices as the catalog has them now; None for one that is not in it, or where nothing is connected."""
    catalog = catalog_of(session, project.organization_id, placement.gpu_count)
    offers = catalog.offers if catalog else []
    return pick(judge_all(offers, want(session, project, method, placement), switched_off(session)), placement)


def want(session: Session, project: Project, method: str, placement: Placement) -> Wanted:
    limit = placement.rate_limit or HourlyRate.dollars(LIMITS["price_limit"].default)
    return _wanted(session, project, method, placement.gpu_count, limit)


def pick(judged: Sequence[Judged], placement: Placement) -> list[Judged | None]:
    """The placement's choices in their order; one None where it names no GPU at all."""
    by_type = {one.offer.gpu_type: one for one in judged}
    return [by_type.get(gpu_type) for gpu_type in placement.gpu_types] or [None]


def require_usable(session: Session, project: Project, method: str, placement: Placement) -> None:
    """`Invalid` for a machine that no day, count or limit makes usable; the rest is for the readiness checks."""
    if placement.provider in ("", LOCAL):
        return
    if find_connection(session, project.organization_id, ConnectionKind.RUNPOD_COMPUTE) is None:
        raise Invalid({"provider": "RunPod is not connected. The owner connects it under Connections."})
    catalog = catalog_of(session, project.organization_id, placement.gpu_count)
    if catalog is None or catalog.seen_at is None:
        raise Invalid({"gpu_type": "RunPod's offers are not known yet. Try again in a few seconds."})
    wrong = {}
    judged = judge_placement(session, project, method, placement)
    for field, chosen, found in zip(("gpu_type", *FURTHER), placement.gpu_types or ("",), judged, strict=False):
        if found is None:
            wrong[field] = f"RunPod does not offer {chosen or 'this GPU'}. Choose one of the list."
        elif found.problem in NEVER:
            wrong[field] = f"{found.offer.label} cannot be used. {found.sentence}"
    if wrong:
        raise Invalid(wrong)


def _list(session: Session, project: Project, typed: Mapping[str, str]) -> GpuListView:
    count, runtime = _count(typed), _runtime(typed)
    catalog = catalog_of(session, project.organization_id, count)
    if catalog is None:
        return GpuListView(False, [], None, "", count, None, runtime)
    wanted = _wanted(session, project, typed.get("method", "lora"), count, _limit(typed))
    judged = judge_all(catalog.offers, wanted, switched_off(session))
    by_type = {one.offer.gpu_type: one for one in judged}
    chosen = by_type.get(typed.get("gpu_type", ""))
    further = [by_type[typed[name]] for name in FURTHER if typed.get(name) in by_type]
    return GpuListView(True, judged, catalog.seen_at, catalog.trouble, count, chosen, runtime, further)


def _complete(session: Session, project: Project, typed: Mapping[str, str]) -> dict[str, str]:
    if typed.get("provider") != RUNPOD or typed.get("gpu_type"):
        return dict(typed)
    judged = _list(session, project, typed).judged
    return {**typed, "gpu_type": next((one.offer.gpu_type for one in judged if one.why), "")}


def runtime_of(settings: RunSettings, trial: TrialSettings | None) -> timedelta:
    """At most, all attempts together."""
    return timedelta(minutes=trial.trial_minutes) if trial else timedelta(hours=settings.maximum_runtime_hours)


def _wanted(session: Session, project: Project, method: str, count: int, limit: HourlyRate) -> Wanted:
    storage = find_connection(session, project.organization_id, ConnectionKind.RUNPOD_STORAGE)
    return Wanted(
        count,
        limit,
        memory_needed(project.base_parameters, method if method in BYTES_PER_PARAMETER else "lora"),
        storage.shown["data_center"] if storage else None,
        _last_type(session, project, method),
    )


def _last_type(session: Session, project: Project, method: str) -> str | None:
    """What the newest run like this one that came to its end was trained on."""
    found = session.exec(
        select(Run.settings, Run.placement)
        .where(Run.project_id == project.id, col(Run.state).in_(_WORKED))
        .order_by(col(Run.created_at).desc())
        .limit(_LOOKED_AT)
    )
    for settings, stored in found:
        place = Placement.of(stored or {})
        if settings.get("method") == method and place.provider == RUNPOD and place.gpu_types:
            return place.gpu_types[0]
    return None


def _count(typed: Mapping[str, str]) -> int:
    text = typed.get("gpu_count", "1")
    return int(text) if text in COUNTS else 1


def _limit(typed: Mapping[str, str]) -> HourlyRate:
    text = typed.get("price_limit", "")
    is_usable = "price_limit" not in place_complaints({**typed, "provider": RUNPOD})
    return HourlyRate.dollars(
        text.strip().lstrip("$").replace(",", "") if is_usable and text.strip() else LIMITS["price_limit"].default
    )


def _runtime(typed: Mapping[str, str]) -> timedelta:
    try:
        return runtime_of(read_settings(typed), read_trial(typed))
    except Invalid:
        return timedelta(hours=RunSettings().maximum_runtime_hours)
