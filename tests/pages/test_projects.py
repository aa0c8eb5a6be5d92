"""Projects: the list, a new one, its settings, home, the overview and the baselines."""

from __future__ import annotations

from uuid import UUID

import pytest

from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.baseline import BaselineState
from tensorant_app.pages.overview import OverviewState
from tensorant_app.pages.project_settings import ProjectSettingsState
from tensorant_app.pages.projects import NewProjectState, ProjectsState
from tensorant_app.pages.scorings import ScoringState
from tensorant_app.settings import get_settings
from tests.factories import make_baseline, make_project, make_run, make_version
from tests.pages.conftest import visit
from tests.people import Person
from tests.plain_base import make_plain_base
from tests.states import call, run


@pytest.fixture
def project_id(owner: Person) -> UUID:
    with unit_of_work() as session:
        return make_project(session, owner.organization_id).id


def test_a_project_is_made_of_a_base_model_of_this_computer(owner: Person, viewer: Person) -> None:
    base = make_plain_base(get_settings().bases_dir / "plain")
    choice = f"{base.repo_id}@{base.revision}"

    state = visit(NewProjectState, owner, "/projects/new", "load")
    assert [option.value for option in state.options] == [choice]
    run(call(state, "create", {"name": " ", "base": choice}))
    assert state.fields == {"name": "A project needs a name."}
    run(call(state, "create", {"name": "Triage", "base": choice}))
    assert state.error == ""

    assert [row.name for row in visit(ProjectsState, viewer, "/projects", "load").rows] == ["Triage"]
    state = visit(NewProjectState, viewer, "/projects/new", "load")
    run(call(state, "create", {"name": "Mine", "base": choice}))
    assert "viewer" in state.error


def test_fifty_projects_fill_a_page(owner: Person) -> None:
    with unit_of_work() as session:
        for _ in range(51):
            make_project(session, owner.organization_id)

    first = visit(ProjectsState, owner, "/projects", "load")
    second = visit(ProjectsState, owner, first.pages.next, "load")

    assert (first.pages.words, first.pages.next) == ("1–50 of 51", "/projects?from=50")
    assert (second.pages.words, second.pages.previous, second.pages.next) == ("51–51 of 51", "/projects", "")


def test_a_project_is_renamed_by_whom_it_belongs_to(
    owner: Person, viewer: Person, stranger: Person, project_id: UUID
) -> None:
    path = f"/projects/{project_id}/settings"
    for person in (viewer, stranger):
        state = visit(ProjectSettingsState, person, path)
        run(call(state, "rename", {"name": "Mine"}))
        assert state.error

    state = visit(ProjectSettingsState, owner, path, "load")
    run(call(state, "rename", {"name": "x" * 81}))
    assert state.fields == {"name": "A name has at most 80 characters."}
    run(call(state, "rename", {"name": "Triage"}))
    assert (state.error, state.is_saved) == ("", True)
    assert {member.role for member in state.members} == {"Owner", "Viewer"}


def test_the_overview_leads_along_the_path_and_says_what_waits(
    owner: Person, stranger: Person, project_id: UUID
) -> None:
    state = visit(OverviewState, owner, f"/projects/{project_id}", "load")
    assert (state.step, state.needs, state.facts.version) == (1, [], "")

    run_id = make_run(owner.caller, state=RunState.NEEDS_RECOVERY, sentence="It stopped.")
    with unit_of_work() as session:
        other = session.get_one(Run, run_id).project_id
    state = visit(OverviewState, owner, f"/projects/{other}", "load")
    assert (state.step, state.facts.version, state.facts.baseline) == (4, "v1", "10.0 %")
    assert [(need.title, need.sentence, need.is_urgent) for need in state.needs] == [
        ("First needs recovery", "It stopped.", True)
    ]
    assert [row.state for row in state.recent] == ["needs_recovery"]

    state = visit(OverviewState, stranger, f"/projects/{other}", "load")
    assert state.error
    assert (state.recent, state.needs) == ([], [])


def test_the_overview_offers_no_second_baseline_while_one_is_on_its_way(owner: Person, project_id: UUID) -> None:
    with unit_of_work() as session:
        project = session.get_one(Project, project_id)
        version = make_version(session, project)
        make_baseline(session, project, version, state=EvaluationState.FAILED)
    path = f"/projects/{project_id}"

    state = visit(OverviewState, owner, path, "load")
    assert (state.step, state.is_scoring, state.facts.baseline) == (2, False, "Not scored")

    with unit_of_work() as session:
        make_baseline(session, session.get_one(Project, project_id), version, state=EvaluationState.RUNNING)
    state = visit(OverviewState, owner, path, "load")
    assert (state.step, state.is_scoring, state.facts.baseline) == (2, True, "Being scored")


def test_a_baseline_is_started_on_a_frozen_version_and_cancelled(
    owner: Person, viewer: Person, project_id: UUID
) -> None:
    with unit_of_work() as session:
        project = session.get_one(Project, project_id)
        version = make_version(session, project)
        make_baseline(session, project, version, state=EvaluationState.COMPLETED)
    path = f"/projects/{project_id}/baseline"

    state = visit(BaselineState, viewer, path, "load")
    assert [(row.state, row.exact) for row in state.rows] == [("completed", "10.0 %")]
    dialog = visit(ScoringState, viewer, path, "enter")
    dialog.version = str(version.id)
    run(call(dialog, "start"))
    assert "viewer" in dialog.error

    dialog = visit(ScoringState, owner, path, "enter", "ask_base")
    assert (dialog.is_open, dialog.version) == (True, str(version.id))
    run(call(dialog, "start"))
    assert (dialog.error, dialog.is_open) == ("", False)
    state = visit(BaselineState, owner, path, "load")
    assert state.rows[0].state == "queued"
    run(call(state, "ask_cancel", state.rows[0].id))
    run(call(state, "cancel"))
    run(call(state, "load"))
    assert (state.error, state.rows[0].state) == ("", "cancelled")
