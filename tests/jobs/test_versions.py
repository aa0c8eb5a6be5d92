"""Checks and freezes may be repeated, lose their lease or die at any step: a version is whole, or it is not frozen."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.datasets import VersionEvent
from tensorant_app.db.promise import Promise, claim_due, promise
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.members import Caller
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import versions
from tensorant_app.services.connections import store
from tensorant_app.services.versions import CheckInput
from tensorant_app.settings import get_settings
from tests import data, factories
from tests.conftest import Clock
from tests.plain_base import make_plain_base
from trainer.contract import verify_folder


class Killed(BaseException):
    """The worker died here."""


@pytest.fixture
def caller(sqlite_database: str, clock: Clock) -> Caller:
    broker.load_actors()
    return factories.make_caller()


@pytest.fixture
def version_id(caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """A draft whose check and freeze run inside this process."""
    data.work_inside(monkeypatch)
    dataset_id = data.make_dataset(caller, make_plain_base(tmp_path / "plain"))
    path = data.write_lines(tmp_path / "tickets.jsonl", data.chats(20))
    return data.draft(caller, data.read_import(caller, dataset_id, path))


@pytest.fixture
def freezing(caller: Caller, version_id: UUID) -> UUID:
    """Checked, and to be frozen by the next look."""
    data.check(caller, version_id)
    with unit_of_work() as session:
        versions.freeze_version(session, caller, version_id)
    return version_id


def look(version_id: UUID) -> None:
    broker.perform(versions.REACT, str(version_id))


def look_when_due(clock: Clock) -> None:
    """Long enough after a death that the lease has run out."""
    clock.advance(minutes=2)
    for claim in claim_due():
        broker.perform(claim.kind, str(claim.subject_id))


def verbs(version_id: UUID) -> list[str]:
    with reading() as session:
        return list(session.exec(select(VersionEvent.verb).where(VersionEvent.subject_id == version_id)))


def promised() -> list[Promise]:
    with reading() as session:
        return list(session.exec(select(Promise)))


def frozen_folders() -> list[Path]:
    folder = store().fetch("versions")
    return [path for path in folder.iterdir() if path.name != "drafts"] if folder.is_dir() else []


def half_made() -> list[str]:
    return [path.name for path in get_settings().store_dir.iterdir() if path.name not in ("imports", "versions")]


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


def test_every_hint_twice_checks_once_and_freezes_once(caller: Caller, version_id: UUID) -> None:
    for verb in (versions.check_version, versions.freeze_version):
        with unit_of_work() as session:
            verb(session, caller, version_id)
        look(version_id)
        look(version_id)
        with unit_of_work() as session:
            promise(session, versions.REACT, version_id)
        look(version_id)

    assert verbs(version_id) == ["create", "check", "back", "freeze", "done"]
    assert promised() == []
    assert len(frozen_folders()) == 1
    assert half_made() == []


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_cancelled_check_leaves_nothing_even_where_it_is_begun_anew_otherwise(
    caller: Caller, version_id: UUID, monkeypatch: pytest.MonkeyPatch, begins_anew: bool
) -> None:
    data.check(caller, version_id)
    before = data.show_version(caller, version_id).report
    real = versions.check_files

    def cancelled_meanwhile(job: CheckInput, folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
        found = real(job, folder, beat)
        if not job.merge_system:
            with unit_of_work() as session:
                versions.cancel_check(session, caller, version_id)
        if not job.merge_system and begins_anew:
            with unit_of_work() as session:
                versions.check_version(session, caller, version_id, merge_system=True)
        return found

    monkeypatch.setattr(versions, "check_files", cancelled_meanwhile)
    view = data.check(caller, version_id)
    assert view.state is (VersionState.CHECKING if begins_anew else VersionState.DRAFT)
    look(version_id)

    view = data.show_version(caller, version_id)
    assert (view.state, view.merge_system) == (VersionState.DRAFT, begins_anew)
    assert (view.report == before) is not begins_anew
    assert view.report is not None
    assert verbs(version_id)[3:5] == ["check", "cancel"]
    assert half_made() == []


def test_a_worker_that_dies_between_rename_and_report_checks_again(
    caller: Caller, version_id: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(versions, "finish_check", _die)
        with pytest.raises(Killed):
            data.check(caller, version_id)
    assert data.show_version(caller, version_id).state is VersionState.CHECKING
    assert store().fetch(versions.draft_key(version_id)).is_dir()

    look_when_due(clock)

    view = data.show_version(caller, version_id)
    assert (view.state, view.problem) == (VersionState.DRAFT, None)
    assert data.freeze(caller, version_id).state is VersionState.FROZEN


def test_a_worker_that_dies_between_rename_and_finish_is_harmless(
    caller: Caller, freezing: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(versions, "finish_freeze", _die)
        with pytest.raises(Killed):
            look(freezing)
    (folder,) = frozen_folders()
    before = folder.stat().st_mtime_ns
    assert data.show_version(caller, freezing).state is VersionState.FREEZING

    look_when_due(clock)

    assert data.show_version(caller, freezing).state is VersionState.FROZEN
    assert folder.stat().st_mtime_ns == before
    assert verify_folder(folder)


def test_a_worker_that_dies_before_the_rename_leaves_no_version(
    caller: Caller, freezing: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(versions, "seal_folder", _die)
        with pytest.raises(Killed):
            look(freezing)
    assert frozen_folders() == []

    look_when_due(clock)

    assert data.show_version(caller, freezing).state is VersionState.FROZEN
    assert half_made() == []


def test_two_versions_of_one_content_frozen_at_once_share_a_whole_folder(
    caller: Caller, version_id: UUID, freezing: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., object] = versions.seal_folder

    def seal_after_somebody_else(folder: Path, facts: dict[str, str | int]) -> None:
        real(folder, facts)
        name = versions.frozen_key(str(facts["content_sha256"]))
        shutil.copytree(folder, store().fetch(name))

    monkeypatch.setattr(versions, "seal_folder", seal_after_somebody_else)

    look(freezing)

    assert data.show_version(caller, freezing).state is VersionState.FROZEN
    (folder,) = frozen_folders()
    assert set(verify_folder(folder).files) == set(versions.FILES)
    assert half_made() == []


def test_a_full_disk_during_the_check_is_a_problem_and_the_draft_can_be_checked_again(
    caller: Caller, version_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fill_disk(patch)
        view = data.check(caller, version_id)

    assert view.state is VersionState.DRAFT
    assert view.problem is not None
    assert view.problem.endswith("No space left on device. Free some space, then try again.")
    assert half_made() == []
    assert data.check(caller, version_id).problem is None


def test_a_full_disk_during_the_freeze_is_shown_and_the_freeze_goes_on_by_itself(
    caller: Caller, freezing: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fill_disk(patch)
        look(freezing)
    view = data.show_version(caller, freezing)
    assert view.state is VersionState.FREEZING
    assert view.problem is not None
    assert "No space left on device. Free some space" in view.problem
    (kept,) = promised()
    assert (kept.tries, kept.reason) == (1, "OSError: [Errno 28] No space left on device")
    assert frozen_folders() == []
    assert half_made() == []

    look_when_due(clock)

    view = data.show_version(caller, freezing)
    assert (view.state, view.problem) == (VersionState.FROZEN, None)


def test_a_lost_promise_is_made_again_by_the_row(caller: Caller, freezing: UUID) -> None:
    with unit_of_work() as session:
        session.delete(session.get_one(Promise, (versions.REACT, freezing)))

    with unit_of_work() as session:
        versions.promise_all(session)

    assert [claim.subject_id for claim in claim_due()] == [freezing]


def test_who_lost_the_lease_replaces_no_files(
    caller: Caller, version_id: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., dict[str, object]] = versions.check_files
    overtaken: list[int] = []

    def slow(*arguments: object) -> dict[str, object]:
        found = real(*arguments)
        if not overtaken:
            overtaken.append(0)
            look_when_due(clock)
            overtaken.append(store().fetch(versions.draft_key(version_id)).stat().st_ino)
        return found

    monkeypatch.setattr(versions, "check_files", slow)

    view = data.check(caller, version_id)

    assert view.state is VersionState.DRAFT
    assert store().fetch(versions.draft_key(version_id)).stat().st_ino == overtaken[1]
    assert verbs(version_id) == ["create", "check", "back"]


def _die(*_: object) -> None:
    raise Killed
