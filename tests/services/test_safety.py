"""The safety check of an organization: what it refuses, that a failure is no pass, and that a refused run costs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import Promise, claim_due
from tensorant_app.db.runs import Run
from tensorant_app.db.safety import SafetyChoice
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.db.spend import SpendEntry
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.members import Caller, operator
from tensorant_app.domain.readiness import Check, passed
from tensorant_app.domain.runs import RunState
from tensorant_app.services import classifiers, readiness, runs, safety, sealing
from tensorant_app.services.classifiers import NotChecked, Refusal
from tensorant_app.services.versions import Report
from tensorant_app.settings import get_settings
from tests import data, factories
from tests.conftest import Clock
from tests.data import chat
from tests.fakes import FakeProvider

SECRET = "AKIAABCDEFGHIJKLMNOP"
ROWS = [*data.chats(9), chat("Tell me of Projekt Falke"), chat(f"My key is {SECRET}"), chat("Is this rude?")]


@pytest.fixture
def version_id(caller: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
    """Row 10 has a listed word, row 11 a secret; row 12 only a classifier may refuse."""
    return data.draft(caller, data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", ROWS)))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Rows that the classifier was shown; it refuses those that ask whether they are rude."""
    shown: list[dict[str, Any]] = []

    def ask(settings: object, rows: Any, until: float, beat: Callable[[], None]) -> list[Refusal]:
        shown.extend(rows)
        return [Refusal(row["split"], row["row"], "Rude.") for row in shown if "rude" in row["example"]]

    monkeypatch.setattr(classifiers, "_ask_command", ask)
    return shown


def report_of(caller: Caller, version_id: UUID) -> Report:
    report = data.show_version(caller, version_id).report
    assert report is not None
    return report


def codes(report: Report) -> list[tuple[int, str]]:
    return [(one["row"], one["code"]) for one in report.safety]


def set_words(caller: Caller, text: str) -> None:
    with unit_of_work() as session:
        safety.set_words(session, caller, text)


def set_command(caller: Caller, command: str = "/opt/classifier") -> None:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        safety.set_command(session, operator(), caller.organization_id, command, "60")


def look_again(caller: Caller, version_id: UUID) -> None:
    with unit_of_work() as session:
        safety.check_again(session, caller, version_id)
    broker.perform(safety.REACT, str(version_id))


def test_listed_words_are_refused_beside_secrets(caller: Caller, version_id: UUID) -> None:
    set_words(caller, "projekt falke")

    report = data.check(caller, version_id).report

    assert report is not None
    assert codes(report) == [(10, "listed_word"), (11, "aws_key")]
    assert report.safety_check.rows == 2
    assert not any("falke" in json.dumps(one).lower() or SECRET in json.dumps(one) for one in report.safety)


def test_the_classifier_is_shown_only_what_the_built_in_check_lets_pass(
    caller: Caller, version_id: UUID, asked: list[dict[str, Any]]
) -> None:
    set_words(caller, "projekt falke")
    set_command(caller)

    report = data.check(caller, version_id).report

    assert report is not None
    assert codes(report) == [(10, "listed_word"), (11, "aws_key"), (12, "classifier")]
    assert report.safety[2]["message"] == "Row 12: the classifier refuses it: Rude."
    assert sorted(row["row"] for row in asked) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 12]
    assert SECRET not in json.dumps(asked)


def test_a_classifier_that_fails_is_no_pass(caller: Caller, version_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> list[Refusal]:
        raise NotChecked("It was away.")

    monkeypatch.setattr(safety, "classify", fail)
    set_command(caller)

    report = data.check(caller, version_id).report

    assert report is not None
    assert report.safety_check.has_failed
    assert report.safety_check.sentence == "The classifier could not check the rows. It was away."


def test_a_frozen_version_is_looked_through_again_by_the_settings_of_now(caller: Caller, version_id: UUID) -> None:
    data.check(caller, version_id)
    frozen = data.freeze(caller, version_id)
    before = report_of(caller, version_id)
    set_words(caller, "projekt falke")

    look_again(caller, version_id)

    after = report_of(caller, version_id)
    assert (codes(before), codes(after)) == ([(11, "aws_key")], [(10, "listed_word"), (11, "aws_key")])
    assert before.safety_check.settings != after.safety_check.settings
    assert data.show_version(caller, version_id).content_sha256 == frozen.content_sha256
    with reading() as session:
        assert session.get_one(DatasetVersion, version_id).safety_asked_at is None
        assert list(session.exec(select(Promise).where(Promise.kind == safety.REACT))) == []


def test_settings_that_change_while_it_looks_begin_the_look_anew(
    caller: Caller, version_id: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.check(caller, version_id)
    data.freeze(caller, version_id)
    real = safety.check_files

    def change_then_look(*given: Any) -> dict[str, Any]:
        monkeypatch.setattr(safety, "check_files", real)
        set_words(caller, "projekt falke")
        return real(*given)

    monkeypatch.setattr(safety, "check_files", change_then_look)
    look_again(caller, version_id)
    clock.advance(seconds=1)
    for claim in claim_due():
        broker.perform(claim.kind, str(claim.subject_id))

    assert codes(report_of(caller, version_id)) == [(10, "listed_word"), (11, "aws_key")]


def test_a_look_that_stops_half_way_is_said_and_is_no_pass(
    caller: Caller, version_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    data.check(caller, version_id)
    data.freeze(caller, version_id)
    monkeypatch.setattr(safety, "check_files", full)

    look_again(caller, version_id)

    checked = report_of(caller, version_id).safety_check
    assert checked.has_failed
    assert "No space left on device" in checked.sentence


def test_a_draft_is_checked_as_a_whole(caller: Caller, version_id: UUID) -> None:
    with pytest.raises(Conflict, match="Check the draft instead"), unit_of_work() as session:
        safety.check_again(session, caller, version_id)


def test_an_owners_address_replaces_the_operators_command(caller: Caller) -> None:
    set_command(caller)
    with unit_of_work() as session:
        safety.set_address(session, caller, "https://safety.example.com/", "30")

    with reading() as session:
        found = safety.show_settings(session, caller)

    assert (found.kind.value, found.command, found.url, found.seconds) == (
        "http",
        (),
        "https://safety.example.com/",
        30,
    )
    assert not found.is_private_allowed


def test_an_address_inside_this_network_is_the_operators_to_choose(caller: Caller) -> None:
    assert caller.organization_id is not None
    with pytest.raises(Invalid), unit_of_work() as session:
        safety.set_address(session, caller, "http://127.0.0.1:9000/", "30")

    with unit_of_work() as session:
        safety.set_private_address(session, operator(), caller.organization_id, "http://127.0.0.1:9000/", "30")

    with reading() as session:
        assert safety.show_settings(session, caller).is_private_allowed
        acts = {entry.action for entry in session.exec(select(AuditEntry))}
    assert "safety.private_address" in acts


class TestAToken:
    """The classifier's address asks who is there."""

    TOKEN = "tok-0123456789-wxyz"

    def give(self, caller: Caller, header: str = "") -> None:
        with unit_of_work() as session:
            safety.set_address(session, caller, "https://safety.example.com/", "30")
            safety.set_token(session, caller, self.TOKEN, header)

    def test_it_lies_sealed_and_only_its_end_is_shown(self, caller: Caller) -> None:
        self.give(caller, "X-API-Key")

        with reading() as session:
            found = safety.show_settings(session, caller)
            rows = repr([one.model_dump() for one in session.exec(select(SafetyChoice))])
            audited = repr([one.model_dump() for one in session.exec(select(AuditEntry))])
        assert found.token_words == "A token ending in wxyz is sent in the header X-API-Key."
        assert self.TOKEN not in rows + audited + repr(found)

    def test_the_classifier_gets_it_and_a_copy_in_another_organization_opens_nothing(
        self, caller: Caller, version_id: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        got: list[str] = []
        monkeypatch.setattr(safety, "classify", lambda settings, rows, beat, token: got.append(token) or [])
        self.give(caller)

        data.check(caller, version_id)
        assert got == [self.TOKEN]

        with unit_of_work() as session:
            choice = session.get_one(SafetyChoice, caller.organization_id)
            choice.sealed = sealing.seal_token(session, uuid4(), self.TOKEN)
        data.check(caller, version_id)
        checked = report_of(caller, version_id).safety_check
        assert checked.has_failed
        assert "were sealed for another organization" in checked.sentence

    def test_another_address_is_not_shown_the_token_of_the_one_before(self, caller: Caller) -> None:
        self.give(caller)
        with unit_of_work() as session:
            safety.set_address(session, caller, "https://safety.example.com/", "60")
        with reading() as session:
            assert safety.show_settings(session, caller).has_token

        with unit_of_work() as session:
            safety.set_address(session, caller, "https://elsewhere.example.com/", "60")
        with reading() as session:
            assert safety.show_settings(session, caller).token_words == "No token is sent."

    def test_another_key_of_the_installation_seals_it_anew(self, caller: Caller) -> None:
        self.give(caller)
        get_settings().add_secret_key()
        with unit_of_work() as session:
            sealing.rotate_keys(session, operator())
        get_settings().drop_old_secret_keys()

        with reading() as session:
            choice = session.get_one(SafetyChoice, caller.organization_id)
            assert sealing.unseal_token(choice.organization_id, choice.sealed) == self.TOKEN

    def test_other_rows_are_not_looked_through_again_for_it(self, caller: Caller) -> None:
        with unit_of_work() as session:
            safety.set_address(session, caller, "https://safety.example.com/", "30")
        with reading() as session:
            before = safety.show_settings(session, caller).fingerprint

        self.give(caller)

        with reading() as session:
            assert safety.show_settings(session, caller).fingerprint == before

    @pytest.mark.parametrize(("token", "header"), [("two words", ""), ("é", ""), ("abc", "Host"), ("abc", "X:Y")])
    def test_what_is_no_token_or_no_header_is_refused(self, caller: Caller, token: str, header: str) -> None:
        with unit_of_work() as session:
            safety.set_address(session, caller, "https://safety.example.com/", "30")

        with pytest.raises(Invalid), unit_of_work() as session:
            safety.set_token(session, caller, token, header)

    def test_without_an_address_nobody_wants_it(self, caller: Caller) -> None:
        with pytest.raises(Conflict, match="Save the classifier's address first"), unit_of_work() as session:
            safety.set_token(session, caller, self.TOKEN)


class TestARunOnRefusedRecords:
    @pytest.fixture
    def run_id(self, caller: Caller, version_id: UUID, monkeypatch: pytest.MonkeyPatch) -> UUID:
        """Everything else is right: frozen data, a completed baseline, a base model, and a computer that can train."""
        monkeypatch.setattr(readiness, "provider_for", lambda session, organization_id: FakeProvider())
        monkeypatch.setattr(readiness, "check_trainer", lambda now: passed(Check.TRAINER, "It trains."))
        data.check(caller, version_id)
        data.freeze(caller, version_id)
        run_id = factories.make_run(caller)
        with unit_of_work() as session:
            version = session.get_one(DatasetVersion, version_id)
            project = session.get_one(Project, session.get_one(Dataset, version.dataset_id).project_id)
            baseline = factories.make_baseline(session, project, version)
            run = session.get_one(Run, run_id)
            run.project_id, run.version_id, run.baseline_id = project.id, version.id, baseline.id
            run.settings = {**run.settings, "warmup_ratio": 0.0}
        return run_id

    def launch(self, caller: Caller, run_id: UUID, clock: Clock) -> Run:
        with unit_of_work() as session:
            runs.launch_run(session, caller, run_id)
        for _ in range(3):
            clock.advance(seconds=2)
            for claim in claim_due():
                broker.perform(claim.kind, str(claim.subject_id))
        with reading() as session:
            assert list(session.exec(select(Machine).where(Machine.subject_id == run_id))) == []
            assert list(session.exec(select(SpendEntry))) == []
            return session.get_one(Run, run_id)

    def test_it_ends_refused_by_number_and_no_machine_was_asked_for(
        self, caller: Caller, run_id: UUID, clock: Clock
    ) -> None:
        run = self.launch(caller, run_id, clock)

        assert run.state is RunState.REFUSED
        assert run.sentence == "1 row is refused by the safety check: 11. Mend them and freeze again."

    def test_settings_that_changed_since_return_it_to_draft_until_somebody_looks_again(
        self, caller: Caller, run_id: UUID, clock: Clock
    ) -> None:
        set_words(caller, "projekt falke")

        run = self.launch(caller, run_id, clock)

        assert run.state is RunState.DRAFT
        assert run.sentence is not None
        assert "The safety settings have changed" in run.sentence
