"""The list of runs: what is found, in which order, and that it stays quick."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from tensorant_app.db import clock as db_clock
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Curve, Run
from tensorant_app.db.session import engines, reading, unit_of_work
from tensorant_app.domain.errors import Invalid, NotFound
from tensorant_app.domain.evaluations import EvaluationKind, EvaluationState
from tensorant_app.domain.members import Caller, Role
from tensorant_app.domain.run_groups import STATES, RunGroup
from tensorant_app.domain.runs import RunState
from tensorant_app.services import run_list
from tensorant_app.services.run_list import PAGE, Asked, RunPage
from tests.conftest import NOON, Clock
from tests.factories import REVISION, ask_machine, make_caller, make_run


@pytest.fixture
def project_id(database: str, clock: Clock) -> UUID:
    """Of a run named First, on either kind of database."""
    caller = make_caller()
    with reading() as session:
        return session.get_one(Run, make_run(caller)).project_id


@pytest.fixture
def caller(project_id: UUID) -> Caller:
    with reading() as session:
        run = session.exec(run_list.select(Run)).one()
    assert run.created_by is not None
    return Caller(run.organization_id, run.created_by, Role.OWNER, "owner@example.com")


def add_runs(project_id: UUID, *runs: dict[str, Any]) -> list[UUID]:
    """Copies of the first run, each a minute older than the one before."""
    with unit_of_work() as session:
        first = session.exec(run_list.select(Run).where(Run.project_id == project_id)).first()
        assert first is not None
        made = []
        for number, values in enumerate(runs, start=1):
            at = NOON - timedelta(minutes=number)
            run = Run(**{**first.model_dump(), "id": db_clock.new_id(at), "created_at": at, **values})
            session.add(run)
            made.append(run.id)
        return made


def look(caller: Caller, project_id: UUID, **asked: Any) -> RunPage:
    with reading() as session:
        return run_list.list_page(session, caller, project_id, Asked(**asked))


def names(page: RunPage) -> Sequence[str]:
    return [line.name for line in page.lines]


def test_pages_follow_each_other_without_a_gap(caller: Caller, project_id: UUID) -> None:
    add_runs(project_id, *({"name": f"r{n}"} for n in range(2 * PAGE)))

    pages = [look(caller, project_id, page=number) for number in (1, 2, 3, 99)]

    places = [(page.first, page.last, page.page) for page in pages]
    assert places == [(1, 50, 1), (51, 100, 2), (101, 101, 3), (101, 101, 3)]
    assert len({line.id for page in pages for line in page.lines}) == 2 * PAGE + 1
    assert pages[0].lines[1].name == "r0"


def test_groups_are_counted_whatever_group_is_shown(caller: Caller, project_id: UUID) -> None:
    add_runs(project_id, *({"state": state, "name": state.value} for state in RunState))

    page = look(caller, project_id, group=RunGroup.LIVE)

    assert page.counts == {group: len(states) + (RunState.DRAFT in states) for group, states in STATES.items()}
    assert {line.state for line in page.lines} == STATES[RunGroup.LIVE]
    assert page.total == len(STATES[RunGroup.LIVE])


def test_a_search_finds_parts_of_names_and_beginnings_of_ids(caller: Caller, project_id: UUID) -> None:
    made = add_runs(project_id, {"name": "Triage-v7"}, {"name": "50%_off"}, {"name": "other", "id": uuid4()})

    assert names(look(caller, project_id, search=" TRIAGE ")) == ["Triage-v7"]
    assert names(look(caller, project_id, search="50%_")) == ["50%_off"]
    assert names(look(caller, project_id, search="_")) == ["50%_off"]
    assert names(look(caller, project_id, search=str(made[2])[:13])) == ["other"]
    assert look(caller, project_id, search="triage").counts[RunGroup.ALL] == 1


def test_sorting_and_filters(caller: Caller, project_id: UUID) -> None:
    assert caller.organization_id is not None
    other = make_caller(Role.MEMBER, organization_id=caller.organization_id)
    add_runs(project_id, {"name": "b", "created_by": other.member_id}, {"name": "A"}, {"name": "c"})

    assert names(look(caller, project_id, sort="name", descending=False)) == ["A", "b", "c", "First"]
    assert names(look(caller, project_id, sort="created", descending=False)) == ["c", "A", "b", "First"]
    assert names(look(caller, project_id, member_id=other.member_id)) == ["b"]
    assert look(caller, project_id, version_id=uuid4()).total == 0
    assert len(look(caller, project_id).owners) == 2
    with pytest.raises(Invalid):
        look(caller, project_id, sort="secret")


def test_a_line_says_what_its_machine_and_its_scoring_say(caller: Caller, project_id: UUID) -> None:
    training, scored = add_runs(
        project_id,
        {"name": "t", "state": RunState.TRAINING, "attempt": 1},
        {"name": "s", "state": RunState.COMPLETED, "attempt": 1},
    )
    machine_id = ask_machine(caller, training, NOON)
    with unit_of_work() as session:
        machine = session.get_one(Machine, machine_id)
        machine.status = {"step": 25, "total_steps": 100, "elapsed": 50.0, "validation_loss": 0.5}
        session.add(Curve(run_id=training, attempt=1, name="validation_loss", buckets=[[1, 2, 2, 2], [9, 1, 1, 1]]))
        run = session.get_one(Run, scored)
        evaluation = Evaluation(
            id=uuid4(),
            created_at=NOON,
            organization_id=run.organization_id,
            project_id=project_id,
            version_id=run.version_id,
            kind=EvaluationKind.ADAPTER,
            base_revision=REVISION,
            state=EvaluationState.COMPLETED,
            verdict={"difference": 0.06, "lower": 0.03, "upper": 0.09},
        )
        session.add(evaluation)
        session.flush()
        run.evaluation_id = evaluation.id

    _, first, second = look(caller, project_id).lines

    assert (first.step, first.total_steps, first.seconds_left, first.losses) == (25, 100, 150.0, (2, 1))
    assert (second.difference, second.lower, second.upper, second.machine) == (0.06, 0.03, 0.09, None)
    assert first.version == 1


def test_another_organizations_project_is_not_there(caller: Caller, project_id: UUID) -> None:
    with pytest.raises(NotFound):
        look(make_caller(), project_id)


def test_the_number_of_queries_does_not_grow_with_the_rows(caller: Caller, project_id: UUID) -> None:
    add_runs(project_id, *({"name": f"r{n}"} for n in range(PAGE)))
    asked: list[str] = []
    sa.event.listen(engines().read, "before_cursor_execute", lambda *event: asked.append(event[2]))

    look(caller, project_id)

    assert len([words for words in asked if words.lstrip().upper().startswith("SELECT")]) <= 9


def test_a_launch_in_doubt_needs_somebody_and_stays_live(caller: Caller, project_id: UUID, clock: Clock) -> None:
    doubtful, calm, paused = add_runs(
        project_id,
        *({"state": state, "attempt": 1} for state in (RunState.LAUNCHING, RunState.LAUNCHING, RunState.PAUSED)),
    )
    for run_id, lost in ((doubtful, clock()), (calm, None)):
        machine_id = ask_machine(caller, run_id, clock())
        with unit_of_work() as session:
            row = session.get_one(Machine, machine_id)
            row.ask_sent_at, row.answer_lost_at = clock() - timedelta(seconds=30), lost

    found = look(caller, project_id, group=RunGroup.NEEDS_YOU)

    assert [line.id for line in found.lines] == [doubtful, paused]
    assert [line.is_checking for line in found.lines] == [True, False]
    assert (found.counts[RunGroup.NEEDS_YOU], found.counts[RunGroup.LIVE]) == (2, 2)

    clock.advance(seconds=31)
    assert look(caller, project_id, group=RunGroup.NEEDS_YOU).total == 3, "an overdue answer is a doubt as well"
