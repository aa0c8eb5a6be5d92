"""The list of a project's runs: searched, filtered, sorted and paged in the database, whatever their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Member, User
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Curve, Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.run_groups import STATES, RunGroup
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.domain.spend import NOTHING, Spend
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machine_views import in_doubt
from tensorant_app.services.spend import machine_spends

PAGE = 50
"""Rows of one page."""
SORTS = ("created", "name", "state", "version")
_VALIDATION = "validation_loss"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which part of the list is looked at; it stands whole in the page's address."""

    search: str = ""
    """Part of a name, or the beginning of an id."""
    group: RunGroup = RunGroup.ALL
    version_id: UUID | None = None
    member_id: UUID | None = None
    sort: str = "created"
    descending: bool = True
    page: int = 1


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as the list shows it."""

    id: UUID
    name: str
    purpose: RunPurpose
    state: RunState
    sentence: str | None
    failing: tuple[str, ...]
    """What the readiness checks last refused, while it is a draft."""
    created_at: datetime
    owner: str
    version: int
    method: str
    rank: int
    gpu_type: str | None
    machine: MachineState | None
    is_checking: bool
    """Nobody knows whether its machine exists: **Checking launch**."""
    step: int
    total_steps: int
    seconds_left: float | None
    """Of the training, by its own pace; None while there is none."""
    validation_loss: float | None
    losses: tuple[float, ...]
    """Validation losses in their order, for a small picture."""
    scored: int
    to_score: int
    """Test rows, while it is being evaluated."""
    difference: float | None
    lower: float | None
    upper: float | None
    margin: float
    """The gate's numbers where it was judged, as shares of 1."""
    can_retry: bool
    spend: Spend


@dataclass(frozen=True, slots=True)
class RunPage:
    lines: Sequence[RunLine]
    counts: Mapping[RunGroup, int]
    """Of all that the search and the filters leave."""
    total: int
    """Of the chosen group."""
    page: int
    versions: Sequence[tuple[UUID, str]]
    owners: Sequence[tuple[UUID, str]]
    """What can be filtered by: those that some run has."""

    @property
    def first(self) -> int:
        return (self.page - 1) * PAGE + 1 if self.lines else 0

    @property
    def last(self) -> int:
        return (self.page - 1) * PAGE + len(self.lines)

    @property
    def has_any(self) -> bool:
        return self.counts[RunGroup.ALL] > 0


def list_page(session: Session, caller: Caller, project_id: UUID, asked: Asked) -> RunPage:
    """One page; a page beyond the last is the last."""
    caller.require(Permission.SEE)
    own_row(session, caller, Project, project_id, "project")
    if asked.sort not in SORTS:
        raise Invalid({"sort": f"Runs are sorted by {', '.join(SORTS)}; {asked.sort} is none of them."})
    where = _filters(project_id, asked)
    doubts = col(Run.id).in_(in_doubt(Use.RUN, now_of(session)))
    counts = _counts(session, where, doubts)
    total = counts[asked.group]
    page = min(max(asked.page, 1), max(1, -(-total // PAGE)))
    found = session.execute(_page_query(where, asked, page, doubts)).all()
    curves = _curves(session, [row.id for row in found])
    costs = machine_spends(session, Use.RUN, [row.id for row in found])
    lines = [_line(row, curves.get((row.id, row.attempt), ()), costs.get(row.id, NOTHING)) for row in found]
    return RunPage(lines, counts, total, page, _versions(session, project_id), _owners(session, project_id))


def _filters(project_id: UUID, asked: Asked) -> list[sa.ColumnElement[bool]]:
    """All but the group, so that each group's count can be said."""
    where: list[sa.ColumnElement[bool]] = [col(Run.project_id) == project_id]
    if text := asked.search.strip().lower():
        by_name = sa.func.lower(col(Run.name)).contains(text, autoescape=True)
        where.append(sa.or_(by_name, _by_id(text)) if _looks_like_id(text) else by_name)
    if asked.version_id is not None:
        where.append(col(Run.version_id) == asked.version_id)
    if asked.member_id is not None:
        where.append(col(Run.created_by) == asked.member_id)
    return where


def _looks_like_id(text: str) -> bool:
    plain = text.replace("-", "")
    return len(plain) >= 4 and not set(plain) - set("0123456789abcdef")


def _by_id(text: str) -> sa.ColumnElement[bool]:
    """All ids that begin so lie between two, which an index finds."""
    start = text.replace("-", "")[:32]
    return col(Run.id).between(UUID(start.ljust(32, "0")), UUID(start.ljust(32, "f")))


def _counts(
    session: Session, where: Sequence[sa.ColumnElement[bool]], doubts: sa.ColumnElement[bool]
) -> dict[RunGroup, int]:
    by_state = dict(
        session.execute(sa.select(col(Run.state), sa.func.count()).where(*where).group_by(col(Run.state))).all()
    )
    counts = {group: sum(by_state.get(state, 0) for state in states) for group, states in STATES.items()}
    others = col(Run.state).not_in(sorted(STATES[RunGroup.NEEDS_YOU]))
    counts[RunGroup.NEEDS_YOU] += session.execute(
        sa.select(sa.func.count()).select_from(Run).where(*where, others, doubts)
    ).scalar_one()
    return counts


def _page_query(
    where: Sequence[sa.ColumnElement[bool]], asked: Asked, page: int, doubts: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """Fifty ids first, then what stands beside them: only those rows are read whole."""
    scoring, scorer = aliased(Evaluation), aliased(Machine)
    version, machine, member, user = DatasetVersion, Machine, Member, User
    chosen = sa.select(col(Run.id)).where(*where).limit(PAGE).offset((page - 1) * PAGE)
    if asked.group is not RunGroup.ALL:
        of_group: sa.ColumnElement[bool] = col(Run.state).in_(sorted(STATES[asked.group]))
        chosen = chosen.where(sa.or_(of_group, doubts) if asked.group is RunGroup.NEEDS_YOU else of_group)
    if asked.sort == "version":
        chosen = chosen.join(version, col(version.id) == col(Run.version_id))
    order = _order(asked)
    whole = (
        sa.select(
            col(Run.id),
            col(Run.name),
            col(Run.purpose),
            col(Run.state),
            col(Run.sentence),
            col(Run.findings),
            col(Run.created_at),
            col(Run.attempt),
            col(Run.settings),
            col(Run.gate),
            col(version.number),
            col(user.name).label("owner"),
            col(machine.gpu_type),
            col(machine.state).label("machine"),
            col(machine.status),
            doubts.label("is_checking"),
            col(scoring.verdict),
            col(scorer.status).label("scoring"),
        )
        .where(col(Run.id).in_(chosen.order_by(*order)))
        .join(version, col(version.id) == col(Run.version_id))
        .outerjoin(member, col(member.id) == col(Run.created_by))
        .outerjoin(user, col(user.id) == col(member.user_id))
        .outerjoin(
            machine,
            sa.and_(
                col(machine.use) == Use.RUN,
                col(machine.subject_id) == col(Run.id),
                col(machine.attempt) == col(Run.attempt),
            ),
        )
        .outerjoin(scoring, col(scoring.id) == col(Run.evaluation_id))
        .outerjoin(
            scorer,
            sa.and_(
                col(scorer.use) == Use.EVALUATION,
                col(scorer.subject_id) == col(scoring.id),
                col(scorer.attempt) == col(scoring.attempt),
            ),
        )
    )
    return whole.order_by(*order)


def _order(asked: Asked) -> list[sa.ColumnElement[Any]]:
    """Newest first among equals, so that pages never overlap."""
    keys: Mapping[str, Any] = {
        "created": col(Run.created_at),
        "name": sa.func.lower(col(Run.name)),
        "state": col(Run.state),
        "version": col(DatasetVersion.number),
    }
    key = keys[asked.sort]
    first: sa.ColumnElement[Any] = key.desc() if asked.descending else key.asc()
    newest = [] if asked.sort == "created" else [col(Run.created_at).desc()]
    return [first, *newest, col(Run.id).desc() if asked.descending or newest else col(Run.id).asc()]


def _curves(session: Session, run_ids: Sequence[UUID]) -> dict[tuple[UUID, int], tuple[float, ...]]:
    """Validation losses of the page's runs by (run, attempt)."""
    found = session.execute(
        sa.select(col(Curve.run_id), col(Curve.attempt), col(Curve.buckets)).where(
            col(Curve.run_id).in_(run_ids), col(Curve.name) == _VALIDATION
        )
    )
    return {(run_id, attempt): tuple(bucket[3] for bucket in buckets) for run_id, attempt, buckets in found}


def _versions(session: Session, project_id: UUID) -> list[tuple[UUID, str]]:
    used = sa.select(col(Run.version_id)).where(col(Run.project_id) == project_id).distinct()
    found = select(DatasetVersion.id, DatasetVersion.number).where(col(DatasetVersion.id).in_(used))
    return [(key, f"v{number}") for key, number in session.exec(found.order_by(col(DatasetVersion.number).desc()))]


def _owners(session: Session, project_id: UUID) -> list[tuple[UUID, str]]:
    used = sa.select(col(Run.created_by)).where(col(Run.project_id) == project_id).distinct()
    found = select(Member.id, User.name).join(User, col(User.id) == col(Member.user_id)).where(col(Member.id).in_(used))
    return list(session.exec(found.order_by(col(User.name))))


def _line(row: sa.Row[Any], losses: tuple[float, ...], spend: Spend) -> RunLine:
    status, scoring = row.status or {}, row.scoring or {}
    verdict = row.verdict or {}
    gone = row.machine in {None, MachineState.RELEASED, MachineState.ABSENT}
    return RunLine(
        id=row.id,
        name=row.name,
        purpose=row.purpose,
        state=row.state,
        sentence=row.sentence,
        failing=tuple(f["sentence"] for f in row.findings or [] if f["verdict"] == "refuse"),
        created_at=row.created_at,
        owner=row.owner or "",
        version=row.number,
        method=row.settings["method"],
        rank=row.settings["rank"],
        gpu_type=row.gpu_type,
        machine=row.machine,
        is_checking=bool(row.is_checking),
        step=status.get("step", 0),
        total_steps=status.get("total_steps", 0),
        seconds_left=_seconds_left(status) if row.state is RunState.TRAINING else None,
        validation_loss=status.get("validation_loss"),
        losses=losses,
        scored=scoring.get("done", 0),
        to_score=scoring.get("total", 0),
        difference=verdict.get("difference"),
        lower=verdict.get("lower"),
        upper=verdict.get("upper"),
        margin=row.gate.get("margin", 0.0),
        can_retry=row.state in {RunState.FAILED, RunState.CANCELLED} and gone,
        spend=spend,
    )


def _seconds_left(status: Mapping[str, Any]) -> float | None:
    done, total = status.get("step", 0), status.get("total_steps", 0)
    if done < 1 or total <= done:
        return None
    pace = float(status.get("elapsed", 0.0)) / float(done)
    return pace * float(total - done)
