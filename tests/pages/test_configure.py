"""Configure: what is typed is never lost, counted at once, and saved whatever the checks say."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlmodel import col, delete, select

from tensorant_app import routes
from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.runs import DraftForm, Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.db.sessions import SignIn
from tensorant_app.domain.place_form import type_placement
from tensorant_app.domain.readiness import Check, passed
from tensorant_app.pages.configure import configure_page
from tensorant_app.pages.configure_state import ConfigureState
from tensorant_app.services import previews, times
from tests import people
from tests.factories import make_run
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, make_state, sign_in_again


@pytest.fixture
def run(owner: Person) -> Run:
    run_id = make_run(owner.caller)
    with reading() as session:
        return session.get_one(Run, run_id)


@pytest.fixture
def tab(owner: Person, run: Run) -> Any:
    return visit(ConfigureState, owner, routes.configure(run.project_id), "enter", "load")


def do(state: Any, handler: str, *arguments: Any) -> None:
    asyncio.run(call(state, handler, *arguments))


def test_the_page_can_be_drawn() -> None:
    assert "Save training run" in str(configure_page().render())


def test_it_opens_with_defaults_and_what_they_mean(tab: Any) -> None:
    assert (tab.typed["epochs"], tab.preset, tab.changed, tab.kept) == ("3", "balanced", "All at their defaults", "")
    assert (tab.summary.rows, tab.summary.tokens, tab.summary.steps) == ("80", "8,000", "15")
    assert tab.summary.source.startswith("by formula")
    assert tab.hints["version"] == "80 training, 10 validation, 60 test rows"


def test_what_is_typed_is_there_in_another_browser(tab: Any, owner: Person, run: Run) -> None:
    do(tab, "type_in", "epochs", "5")
    do(tab, "type_in", "rank", "wro")
    assert (tab.wrong["rank"], tab.summary.steps) == ("", "–")
    do(tab, "leave", "rank", "wrong")

    other = make_state(ConfigureState, people.sign_in(owner.email), routes.configure(run.project_id))
    do(other, "load")

    assert tab.wrong["rank"] == other.wrong["rank"] == "LoRA rank must be a whole number, such as 16."
    assert (other.typed["epochs"], other.typed["rank"], other.is_default["epochs"]) == ("5", "wrong", False)
    assert other.hints["epochs"] == "1 – 100, default 3"
    assert other.kept.startswith("Form kept")


def test_nothing_typed_is_lost_when_the_session_ends_in_the_middle(tab: Any, owner: Person) -> None:
    with unit_of_work() as session:
        session.exec(delete(SignIn))
    do(tab, "type_in", "epochs", "7")
    assert "session has ended" in tab.error

    sign_in_again(tab, people.sign_in(owner.email))
    do(tab, "type_in", "rank", "8")

    with reading() as session:
        kept = session.exec(select(DraftForm)).one()
    assert (kept.fields["epochs"], kept.fields["rank"]) == ("7", "8")


def test_a_preset_and_a_reset_set_fields(tab: Any) -> None:
    do(tab, "type_in", "seed", "7")
    do(tab, "use_preset", "thorough")
    assert (tab.typed["epochs"], tab.typed["rank"], tab.typed["seed"], tab.preset) == ("5", "32", "42", "thorough")

    do(tab, "reset_field", "epochs")

    assert (tab.typed["epochs"], tab.preset, tab.changed) == ("3", "", "3 changed from default")


def test_another_version_brings_its_baseline(tab: Any, run: Run) -> None:
    do(tab, "choose", "version", "")
    assert (tab.typed["baseline"], tab.hints["baseline"]) == ("", "None is completed for this version yet")

    do(tab, "choose", "version", str(run.version_id))

    assert tab.typed["baseline"] == str(run.baseline_id)


def test_failing_checks_do_not_hold_back_saving(tab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "look_at_trainer", lambda: passed(Check.TRAINER, "It trains."))
    do(tab, "type_in", "context_length", "128")
    do(tab, "check")
    assert tab.to_fix > 0
    assert tab.open_lines[0].verdict == "refuse"

    do(tab, "save")

    with reading() as session:
        saved = session.exec(select(Run).order_by(col(Run.created_at).desc(), col(Run.id).desc())).all()
    assert {run.settings["context_length"] for run in saved} == {2048, 128}


def test_an_event_that_comes_after_saving_does_not_bring_the_form_back(tab: Any, owner: Person, run: Run) -> None:
    """Typing is told 300 ms late: the next form would begin as the one that was saved, as a trial for instance."""
    do(tab, "choose", "purpose", "trial")
    do(tab, "save")

    do(tab, "type_in", "trial_steps", "12")
    do(tab, "leave", "trial_steps", "12")

    again = visit(ConfigureState, owner, routes.configure(run.project_id), "enter", "load")
    assert (again.typed["purpose"], again.typed["trial_steps"], again.kept) == ("full", "20", "")


def test_a_long_row_is_mended_by_one_press(owner: Person, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "look_at_trainer", lambda: passed(Check.TRAINER, "It trains."))
    tab = visit(ConfigureState, owner, routes.configure(run.project_id), "enter", "load")
    do(tab, "type_in", "context_length", "128")
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, run.version_id)
        version.report = {**version.report, "mask": {**version.report["mask"], "longest": 500}}
    do(tab, "check")
    line = next(line for line in tab.open_lines if line.fix.startswith("Raise the context"))

    do(tab, "mend", line.key)

    assert (line.fix, tab.typed["context_length"]) == ("Raise the context length to 512", "512")


def test_what_cannot_be_saved_is_said_at_each_field(tab: Any) -> None:
    do(tab, "type_in", "epochs", "400")
    do(tab, "type_in", "name", " ")

    do(tab, "save")

    assert (tab.wrong["epochs"], tab.wrong["name"]) == ("Epochs must be between 1 and 100.", "A run needs a name.")


def test_a_start_is_saved_with_the_draft_and_one_that_has_passed_is_not(tab: Any, run: Run) -> None:
    do(tab, "type_in", "not_before", "2020-01-01T08:00")
    do(tab, "leave", "not_before", "2020-01-01T08:00")
    assert tab.wrong["not_before"].startswith("Not before has passed")

    at = (times.now() + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M")
    do(tab, "type_in", "not_before", at)
    assert (tab.wrong["not_before"], tab.hints["not_before"]) == ("", "Within 7 days; empty: at once")
    do(tab, "save")

    with reading() as session:
        saved = session.exec(select(Run).where(Run.id != run.id)).one()
    assert type_placement(saved.placement)["not_before"] == at


def test_another_place_forgets_the_gpus_of_this_one(tab: Any) -> None:
    do(tab, "choose", "second_gpu", "NVIDIA L4")
    do(tab, "choose", "provider", "runpod")

    assert tab.typed["second_gpu"] == ""


def test_viewers_see_it_and_change_nothing(viewer: Person, run: Run) -> None:
    tab = visit(ConfigureState, viewer, routes.configure(run.project_id), "enter", "load")
    assert (tab.is_loaded, tab.summary.steps) == (True, "15")

    for handler, arguments in (("type_in", ("epochs", "5")), ("save", ()), ("use_preset", ("thorough",))):
        do(tab, handler, *arguments)
        assert "may not" in tab.error
    assert tab.typed["epochs"] == "3"


def test_another_organizations_form_is_not_there(stranger: Person, run: Run) -> None:
    tab = visit(ConfigureState, stranger, routes.configure(run.project_id), "enter", "load")

    assert tab.error
    assert (tab.is_loaded, tab.versions) == (False, [])
