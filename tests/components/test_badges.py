"""No state without a face, and no face by colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import pytest

from tensorant_app.components import badges
from tensorant_app.domain.connections import ConnectionState
from tensorant_app.domain.deployments import DeploymentState
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.versions import VersionState

TABLES: list[tuple[type[StrEnum], Mapping[StrEnum, badges.Look]]] = [
    (RunState, badges.RUN),
    (MachineState, badges.MACHINE),
    (EvaluationState, badges.EVALUATION),
    (VersionState, badges.VERSION),
    (ImportState, badges.IMPORT),
    (ConnectionState, badges.CONNECTION),
    (DeploymentState, badges.DEPLOYMENT),
]


@pytest.mark.parametrize(("states", "table"), TABLES)
def test_every_state_has_an_icon_a_word_and_a_colour(
    states: type[StrEnum], table: Mapping[StrEnum, badges.Look]
) -> None:
    assert set(table) == set(states)
    for look in table.values():
        assert look.word
        assert look.icon
        assert look.color


@pytest.mark.parametrize(("states", "table"), TABLES)
def test_no_two_states_of_a_table_look_the_same(states: type[StrEnum], table: Mapping[StrEnum, badges.Look]) -> None:
    assert len({look.word for look in table.values()}) == len(table)


@pytest.mark.parametrize(("states", "table"), TABLES)
def test_every_badge_is_soft_and_of_high_contrast(states: type[StrEnum], table: Mapping[StrEnum, badges.Look]) -> None:
    for look in table.values():
        drawn = badges.badge(look)

        assert str(drawn.high_contrast) == "true"
        assert "soft" in str(drawn.variant)


def test_the_second_badge_is_silent_while_the_machine_says_no_more_than_the_run() -> None:
    for state in (MachineState.HELD, MachineState.RELEASED, MachineState.ABSENT):
        assert not badges.machine_badge(state).children
    assert not badges.machine_badge(MachineState.ASKED, is_overdue=False).children
    assert badges.machine_badge(MachineState.ASKED).children
