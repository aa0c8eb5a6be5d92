"""A trial on its run's page: the report, what is missing and why, and the full draft."""

from __future__ import annotations

from dataclasses import asdict, replace

from sqlmodel import select

from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading
from tensorant_app.domain.run_form import blank_form
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.configure_words import default_marks
from tensorant_app.pages.run_actions import RunActions
from tensorant_app.pages.run_state import RunPageState
from tests.pages.conftest import visit
from tests.pages.test_run import address
from tests.people import Person
from tests.services.test_trials import MEASURED, make_trial
from tests.states import call, make_state, run


def test_the_report_shows_each_number_and_says_why_one_is_missing(owner: Person) -> None:
    report = replace(
        MEASURED,
        memory_allocated_mb=15_000,
        memory_available_mb=16_000,
        missing={"memory_reserved_mb": "There is no GPU here."},
        advice=("The memory is 94% full.",),
    )
    run_id = make_trial(owner.caller, trial_report=asdict(report))

    page = visit(RunPageState, owner, address(run_id), "enter", "load")

    rows = {row.label: row.value for row in page.trial.rows}
    assert rows["Full run, time"] == "13 min – 16 min"
    assert rows["Full run, cost"] == "$0.00"
    assert rows["Optimizer step"] == "1 s"
    assert rows["Peak memory allocated"] == "15,000 MB"
    assert rows["Peak memory reserved"] == "–"
    assert [(line.verdict, line.sentence) for line in page.trial.advice] == [("warn", "The memory is 94% full.")]
    assert page.trial.missing == ["There is no GPU here."]
    assert page.trial.memory_percent == 94
    assert "Neither a quality evaluation nor a quote" in page.trial.note
    assert page.trial.refusal == ""


def test_a_trial_that_failed_shows_its_report_and_why_there_is_no_full_draft(owner: Person) -> None:
    run_id = make_trial(owner.caller, state=RunState.FAILED)

    page = visit(RunPageState, owner, address(run_id), "enter", "load")

    assert page.trial.rows == []
    assert "took all its time" in page.trial.missing[0]
    assert "once the trial is completed" in page.trial.refusal
    assert "nothing to recover" in page.trouble.lost


def test_a_member_makes_the_full_draft_and_comes_to_its_page(owner: Person) -> None:
    run_id = make_trial(owner.caller)
    tab = make_state(RunActions, owner.cookies, address(run_id))

    run(call(tab, "full_draft", str(run_id)))

    with reading() as session:
        draft = session.exec(select(Run).where(Run.trial_id == run_id)).one()
    assert (draft.state, tab.error) == (RunState.DRAFT, "")


def test_the_launch_of_a_trial_says_what_it_measures_and_what_its_limit_means(owner: Person) -> None:
    run_id = make_trial(owner.caller, state=RunState.DRAFT, attempt=0)
    tab = make_state(RunActions, owner.cookies, address(run_id))

    run(call(tab, "ask_launch", str(run_id)))

    assert (tab.launch.is_trial, tab.launch.limit) == (True, "20 min")
    assert tab.launch.plan == "20 steps over 80 rows, the longest first"
    assert "ends as Failed" in tab.launch.at_limit


def test_the_bounds_of_a_trial_are_marked_where_they_were_changed() -> None:
    marks = default_marks({**blank_form(), "trial_steps": "30", "purpose": "trial"})

    assert [name for name, is_default in marks.items() if not is_default] == ["purpose", "trial_steps"]
