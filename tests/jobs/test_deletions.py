"""Deleting data: only what nothing uses, and its files go once nothing else needs them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import Promise, claim_due
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, NotFound, Refused
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import datasets, deletions, evaluations, imports, versions
from tensorant_app.services.connections import store
from tensorant_app.services.deletions import Deletable, Deletion
from tests import data, factories
from tests.conftest import Clock
from tests.plain_base import make_plain_base
from trainer.contract import Split, verify_folder


@pytest.fixture
def caller(sqlite_database: str, clock: Clock) -> Caller:
    broker.load_actors()
    return factories.make_caller()


@pytest.fixture
def dataset_id(caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UUID:
    data.work_inside(monkeypatch)
    return data.make_dataset(caller, make_plain_base(tmp_path / "plain"))


@pytest.fixture
def import_id(caller: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
    return data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", data.chats(20)))


@pytest.fixture
def frozen(caller: Caller, import_id: UUID) -> UUID:
    return freeze(caller, import_id)


def freeze(caller: Caller, import_id: UUID) -> UUID:
    version_id = data.draft(caller, import_id)
    data.check(caller, version_id)
    data.freeze(caller, version_id)
    return version_id


def folder_of(caller: Caller, version_id: UUID) -> Path:
    content = data.show_version(caller, version_id).content_sha256
    assert content is not None
    return store().fetch(versions.frozen_key(content))


def delete_version(caller: Caller, version_id: UUID) -> None:
    with unit_of_work() as session:
        deletions.delete_version(session, caller, version_id)


def delete_import(caller: Caller, import_id: UUID) -> None:
    with unit_of_work() as session:
        deletions.delete_import(session, caller, import_id)


def perform(row_id: UUID) -> None:
    broker.perform(deletions.REACT, str(row_id))


def test_a_version_goes_with_its_files_and_its_number_is_not_given_again(
    caller: Caller, dataset_id: UUID, import_id: UUID, frozen: UUID
) -> None:
    folder = folder_of(caller, frozen)

    delete_version(caller, frozen)
    perform(frozen)

    assert not folder.exists()
    assert not store().fetch(versions.draft_key(frozen)).exists()
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []
    with pytest.raises(NotFound):
        data.show_version(caller, frozen)
    with reading() as session:
        project_id = session.get_one(Dataset, dataset_id).project_id
        view = datasets.show_data(session, caller, project_id)
        assert (view.version_count, datasets.frozen_versions(session, caller, project_id)) == (0, [])
    assert data.show_version(caller, data.draft(caller, import_id)).number == 2


def test_what_a_run_or_an_evaluation_uses_is_kept_and_they_are_named(caller: Caller, frozen: UUID) -> None:
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, frozen)
        project = session.get_one(Project, session.get_one(Dataset, version.dataset_id).project_id)
        factories.make_baseline(session, project, version, state=EvaluationState.FAILED)

    with pytest.raises(Refused) as refused:
        delete_version(caller, frozen)

    assert refused.value.message == "Version 1 is in use, so it is kept:"
    assert refused.value.reasons == ("An evaluation (baseline) of it is failed.",)
    assert folder_of(caller, frozen).is_dir()


def test_content_that_another_version_has_as_well_stays_whole(caller: Caller, import_id: UUID, frozen: UUID) -> None:
    twin = freeze(caller, import_id)
    folder = folder_of(caller, twin)
    assert folder == folder_of(caller, frozen)

    delete_version(caller, frozen)
    perform(frozen)

    assert set(verify_folder(folder).files) == set(versions.FILES)
    delete_version(caller, twin)
    perform(twin)
    assert not folder.exists()


def test_a_freeze_of_the_same_content_meanwhile_keeps_its_files(caller: Caller, import_id: UUID, frozen: UUID) -> None:
    folder, twin = folder_of(caller, frozen), data.draft(caller, import_id)
    data.check(caller, twin)
    with unit_of_work() as session:
        versions.freeze_version(session, caller, twin)
    delete_version(caller, frozen)

    perform(frozen)
    broker.perform(versions.REACT, str(twin))

    assert data.show_version(caller, twin).state is VersionState.FROZEN
    assert set(verify_folder(folder).files) == set(versions.FILES)


def test_an_import_goes_once_no_version_is_made_of_it(caller: Caller, import_id: UUID, frozen: UUID) -> None:
    with pytest.raises(Refused) as refused:
        delete_import(caller, import_id)
    assert refused.value.reasons == ("Version 1 is made of it.",)

    delete_version(caller, frozen)
    delete_import(caller, import_id)
    perform(import_id)

    assert not store().fetch(f"imports/{import_id}").exists()
    with pytest.raises(NotFound):
        data.show_import(caller, import_id)
    with pytest.raises(NotFound):
        data.draft(caller, import_id)


def test_the_file_of_one_split_is_in_use_as_well(
    caller: Caller, dataset_id: UUID, import_id: UUID, tmp_path: Path
) -> None:
    other = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "b.jsonl", data.chats(5)))
    data.draft(caller, import_id, files={Split.TEST: other})

    with pytest.raises(Refused) as refused:
        delete_import(caller, other)

    assert refused.value.reasons == ("Version 1 is made of it.",)


def test_what_is_being_worked_on_is_not_deleted(caller: Caller, import_id: UUID) -> None:
    version_id = data.draft(caller, import_id)
    with unit_of_work() as session:
        versions.check_version(session, caller, version_id)

    with pytest.raises(Conflict, match="is being worked on"):
        delete_version(caller, version_id)


def test_nothing_begins_on_a_deleted_version(caller: Caller, frozen: UUID) -> None:
    delete_version(caller, frozen)

    with pytest.raises(NotFound), unit_of_work() as session:
        evaluations.create_baseline(session, caller, frozen)


def test_every_hint_twice_removes_once_and_a_lost_promise_is_made_again(caller: Caller, frozen: UUID) -> None:
    delete_version(caller, frozen)
    with unit_of_work() as session:
        session.delete(session.get_one(Promise, (deletions.REACT, frozen)))
    with unit_of_work() as session:
        deletions.promise_all(session)
    assert [claim.kind for claim in claim_due()] == [deletions.REACT]

    perform(frozen)
    perform(frozen)

    with reading() as session:
        assert session.get_one(DatasetVersion, frozen).files_gone_at is not None
        assert list(session.exec(select(Promise))) == []


class TestDataset:
    """It goes with all that is in it, or not at all."""

    @staticmethod
    def ask(caller: Caller, dataset_id: UUID) -> Deletion:
        with reading() as session:
            return deletions.show_deletion(session, caller, Deletable.DATASET, dataset_id)

    @staticmethod
    def delete(caller: Caller, dataset_id: UUID) -> int:
        with unit_of_work() as session:
            return deletions.delete_dataset(session, caller, dataset_id)

    def test_it_goes_with_its_files_and_versions_and_says_before_what_it_gives_back(
        self, caller: Caller, dataset_id: UUID, import_id: UUID, frozen: UUID
    ) -> None:
        freeze(caller, import_id)
        found = self.ask(caller, dataset_id)
        with reading() as session:
            assert deletions.stored_in(session, caller, dataset_id) == found.bytes
        kept = sum(path.stat().st_size for path in store().fetch("").rglob("*") if path.is_file())
        assert (found.uses, found.imports, found.versions) == ([], 1, 2)

        assert self.delete(caller, dataset_id) == found.bytes
        for claim in claim_due():
            broker.perform(claim.kind, str(claim.subject_id))

        left = sum(path.stat().st_size for path in store().fetch("").rglob("*") if path.is_file())
        assert kept - left == found.bytes > 0
        with reading() as session:
            row = session.get_one(Dataset, dataset_id)
            assert datasets.show_data(session, caller, row.project_id).dataset is None
            entry = session.exec(select(AuditEntry).where(AuditEntry.action == "datasets.delete")).one()
        assert (entry.facts["imports"], entry.facts["versions"], entry.facts["bytes"]) == (1, 2, found.bytes)
        with pytest.raises(NotFound), unit_of_work() as session:
            imports.start_import(session, caller, dataset_id, "more.jsonl")

    def test_one_use_keeps_all_of_it_and_is_named(
        self, caller: Caller, dataset_id: UUID, import_id: UUID, frozen: UUID
    ) -> None:
        with unit_of_work() as session:
            project = session.get_one(Project, session.get_one(Dataset, dataset_id).project_id)
            version = session.get_one(DatasetVersion, frozen)
            factories.make_baseline(session, project, version, state=EvaluationState.FAILED)

        with pytest.raises(Refused) as refused:
            self.delete(caller, dataset_id)

        said = "Version 1: An evaluation (baseline) of it is failed."
        assert (refused.value.reasons, self.ask(caller, dataset_id).uses) == ((said,), [said])
        assert data.show_import(caller, import_id).state is ImportState.READY

    def test_a_file_that_is_being_read_keeps_it(self, caller: Caller, dataset_id: UUID, tmp_path: Path) -> None:
        data.receive(caller, dataset_id, data.write_lines(tmp_path / "late.jsonl", data.chats(2)))

        with pytest.raises(Conflict, match=r"late\.jsonl is checking\. Cancel the import, then delete it\."):
            self.delete(caller, dataset_id)


def test_content_that_a_twin_has_as_well_is_not_said_to_be_given_back(
    caller: Caller, import_id: UUID, frozen: UUID
) -> None:
    with reading() as session:
        alone = deletions.show_deletion(session, caller, Deletable.VERSION, frozen).bytes
    freeze(caller, import_id)

    with reading() as session:
        shared = deletions.show_deletion(session, caller, Deletable.VERSION, frozen).bytes
    folder = folder_of(caller, frozen)
    assert alone - shared == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
