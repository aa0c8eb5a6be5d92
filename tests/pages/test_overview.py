"""What the overview asks a person for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tensorant_app import routes
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.overview import OverviewState
from tensorant_app.pages.run_state import RunPageState
from tests.pages.conftest import visit
from tests.pages.test_recovery import address, rented
from tests.pages.test_strays import project_of
from tests.people import Person


def needs(owner: Person, run_id: UUID) -> list[Any]:
    found = visit(OverviewState, owner, routes.overview(project_of(run_id)), "enter", "load")
    return [need for need in found.needs if need.thing == "run"]


def test_a_launch_in_doubt_stands_first_and_leads_to_its_panel(owner: Person) -> None:
    run_id = rented(owner, RunState.LAUNCHING, MachineState.ASKED)

    (need,) = needs(owner, run_id)

    assert (need.title, need.is_urgent) == ("First: its launch is being checked", True)
    assert need.href == address(run_id)


def test_a_paused_run_waits_for_somebody(owner: Person) -> None:
    (need,) = needs(owner, rented(owner, RunState.PAUSED, MachineState.RELEASED))

    assert (need.title, need.is_urgent) == ("First is paused", False)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (RunState.PREPARING, "First step in a few minutes."),
        (RunState.PAUSED, "No step was trained before it stopped."),
        (RunState.NEEDS_RECOVERY, "No step was trained before it stopped."),
        (RunState.CANCELLED, "No step was trained."),
    ],
)
def test_an_empty_chart_promises_a_step_only_where_one_comes(owner: Person, state: RunState, said: str) -> None:
    run_id = rented(owner, state, MachineState.RELEASED)

    assert visit(RunPageState, owner, address(run_id), "enter", "load").waiting == said
