"""Organizations and members, and the trail of who did what."""

from __future__ import annotations

import ast
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlmodel import col, select

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.organizations import User
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller, Role, operator
from tensorant_app.domain.runs import RunState
from tensorant_app.services import evaluations, organizations, runs
from tests import factories
from tests.conftest import Clock

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def organization_id(sqlite_database: str, clock: Clock) -> UUID:
    with unit_of_work() as session:
        return organizations.create_organization(session, operator(), "  Acme ")


def add(organization_id: UUID, email: str, role: Role = Role.MEMBER) -> UUID:
    with unit_of_work() as session:
        return organizations.add_member(session, operator(), organization_id, email, role)


def trail() -> list[AuditEntry]:
    with reading() as session:
        return list(session.exec(select(AuditEntry).order_by(col(AuditEntry.id))))


class TestMembers:
    def test_a_member_acts_with_their_role_under_their_address_however_written(self, organization_id: UUID) -> None:
        member_id = add(organization_id, " Ann@Example.com ", Role.ADMIN)

        with reading() as session:
            caller = organizations.caller_of(session, "ANN@example.com")

        assert caller == Caller(organization_id, member_id, Role.ADMIN, "ann@example.com")

    def test_one_person_can_belong_to_two_and_acts_in_the_newer(self, organization_id: UUID, clock: Clock) -> None:
        add(organization_id, "ann@example.com", Role.VIEWER)
        clock.advance(seconds=1)
        with unit_of_work() as session:
            other = organizations.create_organization(session, operator(), "Other")
        add(other, "ann@example.com", Role.OWNER)

        with reading() as session:
            caller = organizations.caller_of(session, "ann@example.com")
            assert len(session.exec(select(User)).all()) == 1

        assert (caller.organization_id, caller.role) == (other, Role.OWNER)

    def test_nobody_is_added_twice(self, organization_id: UUID) -> None:
        add(organization_id, "ann@example.com")

        with pytest.raises(Conflict, match=r"ann@example\.com is a member of this organization already"):
            add(organization_id, "Ann@example.com", Role.OWNER)

    def test_an_organization_that_is_not_there_gets_no_members(self, organization_id: UUID) -> None:
        with pytest.raises(NotFound, match="There is no organization"):
            add(uuid4(), "ann@example.com")

    def test_what_is_no_address_is_told(self, organization_id: UUID) -> None:
        with pytest.raises(Invalid) as invalid:
            add(organization_id, "ann")

        assert invalid.value.fields == {"email": "'ann' is not an e-mail address."}

    def test_a_stranger_is_told_so(self, organization_id: UUID) -> None:
        with reading() as session, pytest.raises(NotFound, match=r"Nobody is a member under the address x@y\.example"):
            organizations.caller_of(session, "x@y.example")

    def test_an_organization_needs_a_name(self, organization_id: UUID) -> None:
        with pytest.raises(Invalid, match="An organization needs a name"), unit_of_work() as session:
            organizations.create_organization(session, operator(), " ")


class TestTrail:
    def test_additions_name_the_operator_the_member_and_the_role(self, organization_id: UUID, clock: Clock) -> None:
        clock.advance(seconds=1)
        member_id = add(organization_id, "ann@example.com", Role.OWNER)

        created, added = trail()
        assert (created.action, created.who, created.subject_id) == (
            "organizations.create",
            "operator",
            organization_id,
        )
        assert (added.action, added.subject_id, added.facts) == ("members.add", member_id, {"role": "owner"})
        assert {entry.organization_id for entry in (created, added)} == {organization_id}

    def test_launches_with_their_price_and_cancels_are_written_down(self, caller: Caller, clock: Clock) -> None:
        run_id = factories.make_run(caller)
        clock.advance(seconds=1)
        with unit_of_work() as session:
            runs.launch_run(session, caller, run_id)
        clock.advance(seconds=1)
        with unit_of_work() as session:
            runs.cancel_run(session, operator(), run_id)

        launched, cancelled = trail()[-2:]
        assert (launched.action, launched.who, launched.member_id) == ("runs.launch", caller.name, caller.member_id)
        assert launched.facts == {"shown_price_micros": 0}
        assert (cancelled.action, cancelled.who, cancelled.member_id) == ("runs.cancel", "operator", None)
        assert cancelled.organization_id == caller.organization_id
        assert launched.subject_id == cancelled.subject_id == run_id

    def test_a_cancelled_scoring_is_written_down_as_that(self, caller: Caller, clock: Clock) -> None:
        run_id = factories.make_run(caller)
        with unit_of_work() as session:
            run = session.get_one(Run, run_id)
            evaluation_id = evaluations.create_baseline(session, caller, run.version_id)
            run.state, run.evaluation_id = RunState.EVALUATING, evaluation_id
        clock.advance(seconds=1)
        with unit_of_work() as session:
            runs.cancel_run(session, caller, run_id)

        assert (trail()[-1].action, trail()[-1].subject_id) == ("evaluations.cancel", evaluation_id)

    def test_what_was_refused_or_rolled_back_leaves_no_entry(self, caller: Caller) -> None:
        run_id = factories.make_run(caller, state=RunState.COMPLETED)
        before = len(trail())

        with pytest.raises(Conflict), unit_of_work() as session:
            runs.cancel_run(session, caller, run_id)

        assert len(trail()) == before

    def test_no_line_of_the_program_changes_or_deletes_an_entry(self) -> None:
        users = []
        for package in ("tensorant_app", "jobs"):
            for path in (ROOT / package).rglob("*.py"):
                names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
                users += [path.relative_to(ROOT).as_posix()] if "AuditEntry" in names else []

        assert users == ["tensorant_app/services/audit.py"]
        source = (ROOT / users[0]).read_text()
        assert not any(word in source for word in ("update(", "delete(", "select(", ".get("))
