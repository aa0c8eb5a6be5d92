"""Files that nobody owns go by age; what a live row owns, or is young, is never touched."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db import clock as clock_module
from tensorant_app.db.datasets import DatasetVersion, Import, ImportEvent
from tensorant_app.db.promise import Promise, promise, take_lease
from tensorant_app.db.runs import AdapterUpload, Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.runs import AdapterUploadState, RunState
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import doctor, leftovers, runs
from tensorant_app.settings import get_settings
from tests import factories

OLD = timedelta(days=8)


@pytest.fixture
def caller(sqlite_database: str) -> Caller:
    broker.load_actors()
    return factories.make_caller()


def lay(path: Path, *, age: timedelta = OLD) -> Path:
    """A file, written so long ago, in folders of the same age."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"twelve bytes")
    then = (clock_module.now() - age).timestamp()
    for one in (path, *path.parents):
        if one.is_relative_to(get_settings().data_dir):
            os.utime(one, (then, then))
    return path


def found() -> set[str]:
    now = clock_module.now()
    with reading(now) as session:
        return {one.path.name for one in leftovers.find_leftovers(session, now)}


def sweep() -> None:
    with unit_of_work() as session:
        promise(session, leftovers.SWEEP, leftovers.THIS_INSTALLATION)
    broker.perform(leftovers.SWEEP, str(leftovers.THIS_INSTALLATION))


def store(*parts: str) -> Path:
    return get_settings().store_dir.joinpath(*parts)


class TestWorkFolders:
    def test_those_of_a_killed_process_go_after_a_day(self, caller: Caller) -> None:
        dead = lay(store(f".work-{uuid4()}-abc", "rows.parquet"), age=timedelta(hours=30)).parent
        young = lay(store(f".work-{uuid4()}-def", "rows.parquet"), age=timedelta(hours=20)).parent
        lay(store(".work-xyz", "files"), age=timedelta(hours=30))

        sweep()

        assert not dead.exists()
        assert not store(".work-xyz").exists()
        assert young.exists()

    def test_one_whose_job_is_at_work_stays_however_old_it_is(self, caller: Caller) -> None:
        subject = factories.make_run(caller)
        lay(store(f".work-{subject}-abc", "rows.parquet"))
        with unit_of_work() as session:
            promise(session, runs.REACT, subject)
        assert take_lease(runs.REACT, subject, clock_module.now()) is not None

        assert found() == set()

    def test_one_that_is_still_written_is_young(self, caller: Caller) -> None:
        folder = lay(store(".work-abc", "first"), age=OLD).parent
        lay(folder / "second", age=timedelta(hours=1))
        os.utime(folder, (0, 0))

        assert found() == set()


class TestUploads:
    def start(self, caller: Caller, state: ImportState, *, age: timedelta = OLD, **values: object) -> UUID:
        run_id = factories.make_run(caller)
        with unit_of_work() as session:
            version = session.get_one(DatasetVersion, session.get_one(Run, run_id).version_id)
            row = Import(
                id=uuid4(),
                created_at=now_of(session) - age,
                organization_id=version.organization_id,
                dataset_id=version.dataset_id,
                file_name="rows.jsonl",
                size=100,
                state=state,
                **values,
            )
            session.add(row)
            return row.id

    def part(self, upload_id: UUID, age: timedelta) -> Path:
        return lay(get_settings().uploads_dir / f"{upload_id}.part", age=age)

    def test_one_of_which_no_byte_came_for_a_week_is_cancelled_and_its_file_removed(self, caller: Caller) -> None:
        upload_id = self.start(caller, ImportState.RECEIVING)
        part = self.part(upload_id, OLD)

        sweep()

        with reading() as session:
            assert session.get_one(Import, upload_id).state is ImportState.CANCELLED
            event = session.exec(select(ImportEvent).where(ImportEvent.subject_id == upload_id)).one()
        assert event.sentence == "No byte of it came for a week."
        assert not part.exists()

    def test_one_that_goes_on_slowly_stays(self, caller: Caller) -> None:
        upload_id = self.start(caller, ImportState.RECEIVING)
        part = self.part(upload_id, timedelta(days=6))

        sweep()

        with reading() as session:
            assert session.get_one(Import, upload_id).state is ImportState.RECEIVING
        assert part.exists()

    def test_one_that_waits_for_a_person_is_not_abandoned(self, caller: Caller) -> None:
        upload_id = self.start(caller, ImportState.RECEIVING, arrived=True)
        source = lay(store("imports", str(upload_id), "source.jsonl"))

        sweep()

        with reading() as session:
            assert session.get_one(Import, upload_id).state is ImportState.RECEIVING
        assert source.exists()

    def test_a_part_whose_upload_ended_goes_after_a_day(self, caller: Caller) -> None:
        ended = self.part(self.start(caller, ImportState.CANCELLED), timedelta(hours=30))
        nobodys = self.part(uuid4(), timedelta(hours=30))
        young = self.part(self.start(caller, ImportState.CANCELLED), timedelta(hours=2))

        assert found() == {ended.name, nobodys.name}
        assert young.exists()

    def test_an_adapters_zip_is_treated_alike(self, caller: Caller) -> None:
        run_id = factories.make_run(caller, state=RunState.NEEDS_RECOVERY)
        with unit_of_work() as session:
            shared = {"created_at": now_of(session) - OLD, "organization_id": caller.organization_id}
            row = AdapterUpload(id=uuid4(), run_id=run_id, size=9, state=AdapterUploadState.RECEIVING, **shared)
            session.add(row)
            upload_id = row.id
        part = self.part(upload_id, OLD)
        lay(store("adapter_uploads", f"{upload_id}.zip"))

        sweep()

        with reading() as session:
            assert session.get_one(AdapterUpload, upload_id).state is AdapterUploadState.CANCELLED
        assert not part.exists()
        assert not store("adapter_uploads", f"{upload_id}.zip").exists()


class TestUnnamedFiles:
    def test_what_no_row_names_goes_after_a_week_and_no_sooner(self, caller: Caller) -> None:
        names = [("imports", str(uuid4()), "rows.parquet"), ("versions", "a" * 64, "train.parquet")]
        names += [("evaluations", str(uuid4()), "answers.jsonl"), ("adapters", f"{uuid4()}-1.zip")]
        names += [("versions", "drafts", str(uuid4()), "train.parquet")]
        old = [lay(store(*name)) for name in names]
        young = lay(store("imports", str(uuid4()), "rows.parquet"), age=timedelta(days=6))

        sweep()

        assert not any(path.exists() for path in old)
        assert young.exists()

    def test_what_a_row_names_stays_for_ever(self, caller: Caller) -> None:
        run_id = factories.make_run(caller, state=RunState.TRAINING)
        with unit_of_work() as session:
            run = session.get_one(Run, run_id)
            version = session.get_one(DatasetVersion, run.version_id)
            draft = DatasetVersion(
                **{**version.model_dump(), "id": uuid4(), "number": 2, "state": VersionState.DRAFT},
            )
            draft.content_sha256 = None
            session.add(draft)
            kept = [
                ("imports", str(version.import_id), "rows.parquet"),
                ("versions", str(version.content_sha256), "train.parquet"),
                ("versions", "drafts", str(draft.id), "train.parquet"),
                ("evaluations", str(run.baseline_id), "answers.jsonl"),
                ("adapters", f"{run_id}-1.zip"),
            ]
        paths = [lay(store(*name), age=timedelta(days=400)) for name in kept]

        sweep()

        assert all(path.exists() for path in paths)

    def test_a_file_that_was_never_written_whole_goes_and_anything_else_stays(self, caller: Caller) -> None:
        aside = lay(store("imports", ".rows.parquet.4711"))
        strange = lay(store("notes", "read me"))

        sweep()

        assert not aside.exists()
        assert strange.exists()


class TestTheCache:
    def test_copies_of_what_lies_on_a_volume_go_unless_work_may_read_them(self, caller: Caller) -> None:
        live = factories.make_run(caller, state=RunState.PACKAGING)
        ended = factories.make_run(caller, state=RunState.CANCELLED)
        cache = get_settings().data_dir / "cache" / "volume1"
        kept = lay(cache / f"runs/{live}/adapter/1/manifest.json")
        gone = lay(cache / f"runs/{ended}/adapter/1/manifest.json")
        young = lay(cache / f"evaluations/{uuid4()}/out/1/answers.jsonl", age=timedelta(days=2))

        sweep()

        assert (kept.exists(), gone.exists(), young.exists()) == (True, False, True)


def test_it_promises_itself_again_for_the_next_day(caller: Caller) -> None:
    sweep()

    with reading() as session:
        due: datetime = session.exec(select(Promise.due_at).where(Promise.kind == leftovers.SWEEP)).one()
    assert timedelta(hours=23) < due - clock_module.now() <= timedelta(days=1)


def test_delivered_twice_it_sweeps_once_more_and_no_harm_is_done(caller: Caller) -> None:
    gone, kept = (
        lay(store("imports", str(uuid4()), "a")),
        lay(store("imports", str(uuid4()), "a"), age=timedelta(days=1)),
    )

    sweep()
    sweep()

    assert (gone.exists(), kept.exists()) == (False, True)


def test_the_doctor_only_looks(caller: Caller) -> None:
    path = lay(store("imports", str(uuid4()), "rows.parquet"))

    line = next(one for one in doctor.examine(lambda: None) if one.part == "leftovers")

    assert path.parent.name in line.sentence
    assert path.exists()
