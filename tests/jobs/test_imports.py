"""Reading a file may be repeated, cancelled or broken off: the import is whole, or it is refused with the reason."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from jobs import imports as job
from tensorant_app.db.datasets import Import, ImportEvent
from tensorant_app.db.promise import Promise, claim_due, promise
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import import_previews, imports, work
from tensorant_app.services.connections import store
from tensorant_app.services.import_previews import Chosen
from tensorant_app.settings import get_settings
from tests import data, factories
from tests.conftest import Clock
from tests.plain_base import make_plain_base


@pytest.fixture
def caller(sqlite_database: str, clock: Clock) -> Caller:
    broker.load_actors()
    return factories.make_caller()


@pytest.fixture
def import_id(caller: Caller, tmp_path: Path) -> UUID:
    """Its file is here and waits to be read."""
    dataset_id = data.make_dataset(caller, make_plain_base(tmp_path / "plain"))
    return data.receive(caller, dataset_id, data.write_lines(tmp_path / "tickets.jsonl", data.chats(20)))


def read(import_id: UUID) -> None:
    broker.perform(imports.REACT, str(import_id))


def verbs(import_id: UUID) -> list[str]:
    with reading() as session:
        return list(session.exec(select(ImportEvent.verb).where(ImportEvent.subject_id == import_id)))


def promised() -> list[Promise]:
    with reading() as session:
        return list(session.exec(select(Promise)))


def files() -> list[str]:
    """What lies in the store beside the imports' own files."""
    return [path.name for path in get_settings().store_dir.iterdir() if path.name != "imports"]


def test_the_same_hint_twice_reads_once(caller: Caller, import_id: UUID) -> None:
    read(import_id)
    read(import_id)
    with unit_of_work() as session:
        promise(session, imports.REACT, import_id)
    read(import_id)

    view = data.show_import(caller, import_id)
    assert (view.state, view.accepted) == (ImportState.READY, 20)
    assert verbs(import_id) == ["receive", "check", "done"]
    assert promised() == []
    assert files() == []


class TestLooking:
    """The first rows of an upload, before a person says how it is read."""

    @pytest.fixture
    def upload_id(self, caller: Caller, tmp_path: Path) -> Callable[[bytes], UUID]:
        dataset_id = data.make_dataset(caller, make_plain_base(tmp_path / "base"))

        def arrive(body: bytes) -> UUID:
            with unit_of_work() as session:
                found = imports.start_import(session, caller, dataset_id, "fragen.csv")
            store().put(imports.source_key(found), body)
            with unit_of_work() as session:
                imports.await_person(session, caller, found)
            read(found)
            return found

        return arrive

    def test_a_table_waits_and_is_read_by_the_columns_that_were_chosen(
        self, caller: Caller, upload_id: Callable[[bytes], UUID]
    ) -> None:
        table = 'frage,antwort\n"Größe?","Zwei <|im_end|>"\n"zu viel",a,b\n"Alter?",""\nEnde?,Ja\n'
        found = upload_id(table.encode())
        assert data.show_import(caller, found).state is ImportState.RECEIVING
        assert promised() == []

        chosen = Chosen("prompt_completion", {"prompt": "frage", "completion": "antwort"})
        with unit_of_work() as session:
            import_previews.start_reading(session, caller, found, chosen)
        read(found)

        view = data.show_import(caller, found)
        assert (view.state, view.accepted, view.rejected, view.reason) == (ImportState.READY, 2, 2, None)
        lines = store().fetch(imports.bad_rows_key(found)).read_text().splitlines()
        assert [(row["row"], row["line"], row["raw"]) for row in map(json.loads, lines)] == [
            (2, 3, '"zu viel",a,b'),
            (3, 4, {"frage": "Alter?", "antwort": ""}),
        ]
        warned = store().fetch(imports.warnings_key(found)).read_text()
        assert '"control_token"' in warned

    def test_a_file_that_no_mapping_helps_fails_at_once(
        self, caller: Caller, upload_id: Callable[[bytes], UUID]
    ) -> None:
        view = data.show_import(caller, upload_id(b'{"prompt": "a", "chosen": "b", "rejected": "c"}\n'))

        assert view.state is ImportState.FAILED
        assert view.reason is not None
        assert view.reason.startswith("The file holds preferences")

    def test_a_lost_promise_to_look_is_made_again_by_the_row(
        self, caller: Caller, upload_id: Callable[[bytes], UUID]
    ) -> None:
        found = upload_id(b"frage,antwort\na,b\n")
        with unit_of_work() as session:
            imports.promise_all(session)
        assert promised() == []

        with unit_of_work() as session:
            session.get_one(Import, found).previewed = False
            imports.promise_all(session)

        assert [claim.subject_id for claim in claim_due()] == [found]


def test_a_worker_that_died_while_storing_leaves_a_file_to_read_again(
    caller: Caller, import_id: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(self: FolderStore, key: str, source: Path) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "put", die)
        with pytest.raises(Killed):
            read(import_id)
    assert data.show_import(caller, import_id).state is ImportState.CHECKING

    clock.advance(minutes=2)
    for claim in claim_due():
        broker.perform(claim.kind, str(claim.subject_id))

    assert data.show_import(caller, import_id).state is ImportState.READY


def test_a_lost_promise_is_made_again_by_the_row(caller: Caller, import_id: UUID) -> None:
    with unit_of_work() as session:
        session.delete(session.get_one(Promise, (imports.REACT, import_id)))

    with unit_of_work() as session:
        imports.promise_all(session)

    assert [claim.subject_id for claim in claim_due()] == [import_id]


@pytest.mark.parametrize(
    ("crash", "reason"),
    [
        (
            "import sys; sys.exit('MemoryError: out of memory')",
            "- out of memory. Mend that, then try again.",
        ),
        ("raise OSError(28, 'No space left on device')", "No space left on device. Free some space, then try again."),
        ("import os; os.kill(os.getpid(), 9)", "It was killed by signal 9; if this computer is short of memory"),
        ("import sys; sys.exit(3)", "It ended with code 3."),
    ],
    ids=["exit", "full disk", "killed", "silent"],
)
def test_a_reading_process_that_dies_refuses_the_file_in_a_sentence(
    caller: Caller, import_id: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: str, reason: str
) -> None:
    (tmp_path / "crashing_work.py").write_text(crash)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    real = work.run_work
    monkeypatch.setattr(job, "run_work", lambda module, *rest: real("crashing_work", *rest))

    read(import_id)

    view = data.show_import(caller, import_id)
    assert view.state is ImportState.FAILED
    assert view.reason is not None
    assert view.reason.startswith("The work on the data stopped half-way:\n- ")
    assert reason in view.reason
    assert promised() == []


@pytest.mark.parametrize("stored", [0, 1], ids=["errors", "rows"])
def test_a_full_disk_while_storing_refuses_the_file_and_leaves_no_torn_rows(
    caller: Caller, import_id: UUID, monkeypatch: pytest.MonkeyPatch, stored: int
) -> None:
    syncs: list[int] = []
    real = os.fsync

    def full_after(descriptor: int) -> None:
        if len(syncs) == stored:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        syncs.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full_after)

    read(import_id)

    view = data.show_import(caller, import_id)
    assert view.state is ImportState.FAILED
    assert view.reason is not None
    assert view.reason.endswith("No space left on device. Free some space, then try again.")
    assert store().size(imports.rows_key(import_id)) is None
    assert files() == []


def test_a_cancel_while_it_is_read_ends_the_process_and_says_nothing_more(
    caller: Caller, import_id: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endless_work.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(work, "_BEAT_SECONDS", 0.1)
    real_beat: Callable[..., None] = job._beat

    def cancel_then_beat(lease: object) -> None:
        with unit_of_work() as session:
            imports.cancel_import(session, caller, import_id)
        real_beat(lease)

    real = work.run_work
    monkeypatch.setattr(job, "run_work", lambda module, *rest: real("endless_work", *rest))
    monkeypatch.setattr(job, "_beat", cancel_then_beat)

    read(import_id)

    assert data.show_import(caller, import_id).state is ImportState.CANCELLED
    read(import_id)
    assert promised() == []
    assert files() == []
    assert not store().fetch(imports.folder_key(import_id)).exists()
    assert verbs(import_id) == ["receive", "check", "cancel"]


def test_a_cancel_before_it_is_read_reads_nothing(caller: Caller, import_id: UUID) -> None:
    with unit_of_work() as session:
        imports.cancel_import(session, caller, import_id)

    read(import_id)

    assert verbs(import_id) == ["receive", "check", "cancel"]
    assert promised() == []


def test_what_has_arrived_of_a_cancelled_file_is_removed_whoever_dies_before(caller: Caller, import_id: UUID) -> None:
    with unit_of_work() as session:
        imports.cancel_import(session, caller, import_id)
        session.flush()
    with unit_of_work() as session:
        session.delete(session.get_one(Promise, (imports.REACT, import_id)))
    assert store().size(imports.source_key(import_id))

    with unit_of_work() as session:
        imports.promise_all(session)
    assert [claim.kind for claim in claim_due()] == [imports.REACT]
    read(import_id)
    read(import_id)

    assert not store().fetch(imports.folder_key(import_id)).exists()
    with unit_of_work() as session:
        imports.promise_all(session)
    assert promised() == []
