"""What one look at a machine leads to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tensorant_app.domain.machines import (
    LIFECYCLE,
    RENTED,
    THIS_COMPUTER,
    MachineFacts,
    MachineReason,
    MachineState,
    Presence,
    ProofRules,
    Sighting,
    Use,
    decide,
    machine_name,
)
from tensorant_app.domain.steps import Cause

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def facts(
    state: MachineState,
    *,
    asked: datetime | None = NOON - HOUR,
    wanted: datetime | None = None,
    absent_since: datetime | None = None,
    absent_looks: int = 0,
    has_result: bool = False,
) -> MachineFacts:
    return MachineFacts(state, asked, wanted, absent_since, absent_looks, has_result)


def seen(presence: Presence, *ids: str, at: datetime = NOON) -> Sighting:
    return Sighting(at, presence, ids)


def verb(found: MachineFacts, sighting: Sighting, rules: ProofRules = RENTED) -> str | None:
    move = decide(found, sighting, rules)
    return move.verb if move else None


@pytest.mark.parametrize("rules", [RENTED, THIS_COMPUTER], ids=["rented", "local"])
@pytest.mark.parametrize("state", MachineState)
@pytest.mark.parametrize("presence", Presence)
@pytest.mark.parametrize("wanted", [None, NOON - HOUR])
@pytest.mark.parametrize("has_result", [False, True])
@pytest.mark.parametrize("looks", [0, 5])
def test_no_look_leads_to_a_step_the_table_forbids(
    rules: ProofRules, state: MachineState, presence: Presence, wanted: datetime | None, has_result: bool, looks: int
) -> None:
    found = facts(state, wanted=wanted, has_result=has_result, absent_since=NOON - HOUR, absent_looks=looks)

    move = decide(found, seen(presence, "a"), rules)

    assert move is None or LIFECYCLE.can_step(state, move.verb, Cause.WORKER)


def test_one_machine_of_the_name_appears() -> None:
    assert verb(facts(MachineState.ASKED), seen(Presence.PRESENT, "a")) == "appear"


def test_several_of_one_name_are_never_chosen_between() -> None:
    assert verb(facts(MachineState.ASKED), seen(Presence.PRESENT, "a", "b")) is None


def test_a_machine_found_after_its_release_was_wanted_is_caught() -> None:
    assert verb(facts(MachineState.ASKED, wanted=NOON), seen(Presence.PRESENT, "a", "b")) == "catch"


def test_not_listed_is_unknown_inside_ten_minutes_of_the_create_call() -> None:
    young = facts(
        MachineState.HELD, asked=NOON - timedelta(minutes=9), absent_since=NOON - timedelta(minutes=5), absent_looks=20
    )

    assert verb(young, seen(Presence.ABSENT)) is None


@pytest.mark.parametrize(
    ("looks", "span", "expected"),
    [(1, 300, None), (2, 59, None), (2, 60, "lose"), (9, 60, "lose")],
)
def test_lost_needs_three_looks_spread_over_a_minute(looks: int, span: int, expected: str | None) -> None:
    found = facts(MachineState.HELD, absent_since=NOON - timedelta(seconds=span), absent_looks=looks)

    assert verb(found, seen(Presence.ABSENT)) == expected


def test_a_rented_machine_whose_answer_was_lost_is_never_given_up_by_itself() -> None:
    found = facts(MachineState.ASKED, absent_since=NOON - HOUR, absent_looks=500, wanted=NOON - HOUR)

    assert verb(found, seen(Presence.ABSENT)) is None


@pytest.mark.parametrize("wanted", [None, NOON - HOUR])
def test_one_that_was_heard_did_exist_and_is_given_up_like_any_other(wanted: datetime | None) -> None:
    found = facts(MachineState.ASKED, absent_since=NOON - HOUR, absent_looks=5, wanted=wanted)

    move = decide(replace(found, has_started=True), seen(Presence.ABSENT), RENTED)

    assert move is not None
    assert (move.verb, move.reason) == ("catch", MachineReason.USE_ENDED if wanted else MachineReason.LOST)


def test_on_this_computer_one_look_is_proof() -> None:
    assert verb(facts(MachineState.HELD), seen(Presence.ABSENT), THIS_COMPUTER) == "lose"
    assert verb(facts(MachineState.RELEASING), seen(Presence.ABSENT), THIS_COMPUTER) == "confirm"
    assert verb(facts(MachineState.ASKED, wanted=NOON), seen(Presence.ABSENT), THIS_COMPUTER) == "deny"


def test_a_process_that_ended_is_lost_only_without_a_result() -> None:
    assert verb(facts(MachineState.HELD), seen(Presence.EXITED, "a")) == "lose"
    assert verb(facts(MachineState.HELD, has_result=True), seen(Presence.EXITED, "a")) is None


def test_a_failed_look_proves_nothing() -> None:
    for state in MachineState:
        assert verb(facts(state, absent_since=NOON - HOUR, absent_looks=99), seen(Presence.UNKNOWN)) is None


def test_only_the_provider_or_repeated_absence_confirms_a_release() -> None:
    assert verb(facts(MachineState.RELEASING), seen(Presence.GONE, "a")) == "confirm"
    assert verb(facts(MachineState.RELEASING), seen(Presence.PRESENT, "a")) is None
    assert verb(facts(MachineState.RELEASING), seen(Presence.ABSENT)) is None
    assert verb(
        facts(MachineState.RELEASE_FAILED, absent_since=NOON - HOUR, absent_looks=2), seen(Presence.ABSENT)
    ) == ("confirm")


@pytest.mark.parametrize(("was_known", "expected"), [(True, "confirm"), (False, None)])
def test_a_young_machine_that_was_known_is_released_on_the_same_proof_as_an_old_one(
    was_known: bool, expected: str | None
) -> None:
    young = facts(
        MachineState.RELEASING,
        asked=NOON - timedelta(minutes=3),
        absent_since=NOON - timedelta(minutes=1),
        absent_looks=2,
    )

    assert verb(replace(young, was_known=was_known), seen(Presence.ABSENT)) == expected


@pytest.mark.parametrize("state", [MachineState.RELEASED, MachineState.ABSENT])
def test_a_machine_that_was_proved_gone_and_is_listed_again_is_released_again(state: MachineState) -> None:
    move = decide(facts(state), seen(Presence.PRESENT, "a"), RENTED)

    assert move is not None
    assert (move.verb, move.reason) == ("reappear", MachineReason.CAME_BACK)


def test_names_are_unique_to_the_attempt() -> None:
    assert machine_name(Use.RUN, "7", 1) == "tune-7"
    assert machine_name(Use.RUN, "7", 2) == "tune-7-2"
    assert machine_name(Use.EVALUATION, "7", 1) == "eval-7"
    assert machine_name(Use.DEPLOYMENT, "7", 3) == "serve-7-3"


def test_one_of_which_several_were_listed_was_there_and_is_lost_when_all_are_gone() -> None:
    asked = facts(MachineState.ASKED, asked=NOON - HOUR, absent_since=NOON - HOUR, absent_looks=2)

    assert verb(asked, seen(Presence.ABSENT)) is None, "a person confirms that it never was"
    assert verb(replace(asked, was_known=True), seen(Presence.ABSENT)) == "catch"
