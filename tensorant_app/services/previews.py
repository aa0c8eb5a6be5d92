"""The readiness checks while a run is still a form: what fails now, and what mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db import clock
from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.domain import trials
from tensorant_app.domain.errors import Invalid, TensorantError
from tensorant_app.domain.hyperparameters import RANGES, show_number
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.place_form import read_placement
from tensorant_app.domain.readiness import Check, Finding, Verdict
from tensorant_app.domain.run_form import read_settings, read_trial
from tensorant_app.services import readiness
from tensorant_app.services.bases import BaseFacts, find_base, inspect_base
from tensorant_app.services.lookup import own_row
from tensorant_app.services.readiness import Subject
from tensorant_app.services.rented_checks import limit_that_fits
from trainer.contract import Base

MENDS_BY_PLACE = {
    Check.VERSION: ("Open Data", "data"),
    Check.SAFETY: ("Open Data", "data"),
    Check.SAFETY_LOOK: ("Open Data", "data"),
    Check.BASELINE: ("Open Baseline", "baseline"),
    Check.BUDGET: ("Open Settings", "settings"),
}
_OF_ACCOUNTS = {Check.COMPUTE, Check.STORAGE}


@dataclass(frozen=True, slots=True)
class Mend:
    """What to press: a field gets a value, or another page is opened."""

    label: str
    field: str = ""
    value: str = ""
    place: str = ""
    """`data`, `baseline`, `settings` or `connections`."""


def read_form(session: Session, caller: Caller, project_id: UUID, typed: Mapping[str, str]) -> Subject | None:
    """What the checks need of the form; None while it cannot be checked."""
    caller.require(Permission.SEE)
    project = own_row(session, caller, Project, project_id, "project")
    try:
        settings, trial, placement = read_settings(typed), read_trial(typed), read_placement(typed)
        version = session.get(DatasetVersion, UUID(typed.get("version", "")))
        baseline = session.get(Evaluation, UUID(typed.get("baseline", "")))
    except (Invalid, ValueError):
        return None
    if (
        version is None
        or version.deleted_at is not None
        or session.get_one(Dataset, version.dataset_id).project_id != project.id
    ):
        return None
    if baseline is None or baseline.project_id != project.id:
        return None
    return readiness.make_subject(session, project, version, baseline, settings, trial, placement)


@dataclass(frozen=True, slots=True)
class Look:
    findings: Sequence[Finding]
    free: int
    """Bytes of memory that a machine has left now; 0 where none answers."""


def look(subject: Subject) -> Look:
    """Every check but the trainer's, which can take a minute. Call it with no transaction open."""
    return Look(readiness.check_all_but_trainer(subject, _inspect), _free_memory(subject))


def look_at_trainer() -> Finding:
    """The slow one, for a run on this computer; remembered for 15 minutes."""
    return readiness.check_trainer(clock.now())


def _free_memory(subject: Subject) -> int:
    """Of the chosen GPU, or of this computer."""
    if subject.rented is not None:
        return subject.rented.judged.offer.memory_bytes if subject.rented.judged else 0
    try:
        offers = subject.provider.offers()
    except TensorantError:
        return 0
    return offers[0].memory_bytes if offers else 0


def mend_of(finding: Finding, subject: Subject) -> Mend | None:
    """None where only the finding's own sentence helps."""
    if finding.verdict is Verdict.PASS:
        return None
    if finding.check in MENDS_BY_PLACE:
        label, place = MENDS_BY_PLACE[finding.check]
        return Mend(label, place=place)
    if finding.check in _OF_ACCOUNTS and subject.rented is not None:
        return Mend("Open Connections", place="connections")
    match finding.check:
        case Check.ROWS if subject.report is not None:
            value = show_number(-(-subject.report.mask.longest // 64) * 64)
            return Mend(f"Raise the context length to {value}", "context_length", value)
        case Check.BASE_FIT if (most := _most_context(subject)) is not None:
            return Mend(f"Lower the context length to {show_number(most)}", "context_length", show_number(most))
        case Check.SPACE if subject.settings.checkpoint_every_epochs < subject.settings.epochs:
            return Mend("Save one checkpoint, at the end", "checkpoint_every_epochs", str(subject.settings.epochs))
        case Check.PRICE if subject.rented is not None and (limit := limit_that_fits(subject.rented)) is not None:
            return Mend(f"Raise the limit to ${limit}/h", "price_limit", limit)
        case Check.TIME:
            return _more_time(subject)
        case Check.PLAN:
            return Mend("Train without a warm-up", "warmup_ratio", "0")
    return None


def _more_time(subject: Subject) -> Mend | None:
    """A limit with room to spare; None where even the longest is too short."""
    found = subject.estimate
    if found is None or found.longest is None:
        return None
    if subject.trial is not None:
        most = trials.RANGES["trial_minutes"].high
        wanted = subject.trial.trial_minutes < most
        return Mend(f"Allow {most:g} minutes", "trial_minutes", f"{most:g}") if wanted else None
    hours = -(-1.25 * found.longest.total_seconds() // 1800) / 2
    if hours > RANGES["maximum_runtime_hours"].high:
        return None
    return Mend(f"Raise the maximum runtime to {hours:g} h", "maximum_runtime_hours", f"{hours:g}")


def _most_context(subject: Subject) -> int | None:
    try:
        return _inspect(find_base(subject.base_repo_id, subject.base_revision)).context_length
    except TensorantError:
        return None


def _inspect(base: Base) -> BaseFacts:
    """`inspect_base`, which reads gigabytes, once for as long as no file of the folder changes."""
    return _remembered(base, _fingerprint(Path(base.folder)))


@lru_cache(maxsize=4)
def _remembered(base: Base, fingerprint: tuple[tuple[str, int, int], ...]) -> BaseFacts:
    return inspect_base(base)


def _fingerprint(folder: Path) -> tuple[tuple[str, int, int], ...]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
