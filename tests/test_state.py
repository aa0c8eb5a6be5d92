"""What every page's state does: one use case, a sentence where it was refused, and the loop of a live page."""

from __future__ import annotations

from typing import Any

import pytest
from sqlmodel import Session, select

from tensorant_app import state as module
from tensorant_app.db.organizations import Member
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.errors import Invalid, Refused
from tensorant_app.domain.members import Caller, Permission, Role
from tensorant_app.services import sessions
from tensorant_app.state import AppState, id_of
from tests.conftest import Clock
from tests.people import Person, make_person
from tests.states import call, make_state, run


@pytest.fixture
def person(sqlite_database: str, clock: Clock) -> Person:
    return make_person(Role.MEMBER)


def do(state: Any, work: Any) -> Any:
    return run(state._do(work))


def test_a_use_case_gets_its_session_and_its_caller(person: Person) -> None:
    state = make_state(AppState, person.cookies)

    assert do(state, lambda session, caller: (type(session), caller)) == (Session, person.caller)
    assert state.error == ""


def test_a_refusal_is_shown_as_written_and_gone_with_the_next_event(person: Person) -> None:
    state = make_state(AppState, person.cookies)

    def refuse(session: Session, caller: Caller) -> None:
        raise Refused("The run cannot start:", ["No machine is free.", "The slots are taken."])

    assert do(state, refuse) is None
    assert (state.error, state.reasons) == ("The run cannot start:", ["No machine is free.", "The slots are taken."])
    do(state, lambda session, caller: None)
    assert (state.error, state.reasons) == ("", [])


def test_a_wrong_field_is_named(person: Person) -> None:
    state = make_state(AppState, person.cookies)

    def refuse(session: Session, caller: Caller) -> None:
        raise Invalid({"name": "A run needs a name."})

    do(state, refuse)

    assert state.fields == {"name": "A run needs a name."}


def test_a_bug_is_logged_under_an_id_that_people_are_told(person: Person, caplog: pytest.LogCaptureFixture) -> None:
    state = make_state(AppState, person.cookies)

    def fail(session: Session, caller: Caller) -> None:
        raise ZeroDivisionError("secret detail")

    do(state, fail)

    assert state.error.startswith("Something went wrong. It has been logged as ")
    assert "secret" not in state.error
    assert state.error.removesuffix(".").rpartition(" ")[2] in caplog.text


def test_nothing_is_written_by_what_only_looks(person: Person) -> None:
    state = make_state(AppState, person.cookies)

    def write(session: Session, caller: Caller) -> None:
        session.exec(select(Member)).first().role = Role.OWNER  # type: ignore[union-attr]
        session.flush()

    run(state._see(write))

    assert state.error.startswith("Something went wrong.")


@pytest.mark.parametrize("text", ["", "x", "1", "../", "a" * 40])
def test_an_id_that_is_none_is_not_found(person: Person, text: str) -> None:
    state = make_state(AppState, person.cookies)

    do(state, lambda session, caller: id_of(text))

    assert state.error == "There is nothing under this address."


@pytest.mark.parametrize("role", Role)
def test_entering_a_page_says_who_is_looking_and_what_is_for_them(
    sqlite_database: str, clock: Clock, role: Role
) -> None:
    person = make_person(role)
    state = make_state(AppState, person.cookies)

    run(call(state, "enter"))

    assert (state.me.email, state.me.role, state.me.organization) == (person.email, role.value, "Acme")
    assert (state.me.may_prepare, state.me.may_decide, state.me.may_own) == (
        role is not Role.VIEWER,
        role in (Role.ADMIN, Role.OWNER),
        role is Role.OWNER,
    )


class TestALivePage:
    @pytest.fixture
    def sleeps(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """The pauses it made; none takes any time."""
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        monkeypatch.setattr(module.asyncio, "sleep", sleep)
        return pauses

    def test_looks_until_it_is_told_to_stop(self, person: Person, sleeps: list[float]) -> None:
        state = make_state(AppState, person.cookies)
        seen: list[str] = []

        def show(name: str) -> bool:
            seen.append(name)
            return len(seen) < 3

        run(state._watch(lambda session, caller: caller.name, show, every=2))

        assert seen == [person.email] * 3
        assert sleeps == [2, 2]

    def test_stops_with_the_session(self, person: Person, sleeps: list[float]) -> None:
        state = make_state(AppState, person.cookies)

        def show(_: None) -> bool:
            sessions.sign_out_everywhere(person.cookies)
            return True

        run(state._watch(lambda session, caller: None, show))

        assert len(sleeps) == 1
        assert state.error.startswith("Your session has ended.")
        assert state.me.email == ""

    def test_stops_when_the_role_no_longer_allows_it(self, person: Person, sleeps: list[float]) -> None:
        state = make_state(AppState, person.cookies)

        def demote(_: None) -> bool:
            with unit_of_work() as session:
                session.exec(select(Member).where(Member.id == person.caller.member_id)).one().role = Role.VIEWER
            return True

        run(state._watch(lambda session, caller: caller.require(Permission.PREPARE), demote))

        assert (
            state.error == "Your role (viewer) may not import, edit, freeze or save drafts. Ask an admin or the owner."
        )

    def test_stops_with_a_sentence_at_a_bug(self, person: Person, sleeps: list[float]) -> None:
        state = make_state(AppState, person.cookies)

        run(state._watch(lambda session, caller: 1 / 0, lambda _: True))

        assert state.error.startswith("This page has stopped following. It has been logged as ")

    def test_stops_after_twelve_hours(
        self, person: Person, sleeps: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "monotonic", lambda: 3600.0 * len(sleeps))
        state = make_state(AppState, person.cookies)

        run(state._watch(lambda session, caller: None, lambda _: True))

        assert len(sleeps) == 12
