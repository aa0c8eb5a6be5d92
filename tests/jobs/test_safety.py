"""Looking through a frozen version once more: however often it is told, the rows and their name stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.promise import Promise, claim_due
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.services import safety
from tensorant_app.settings import get_settings
from tests import data, factories
from tests.conftest import Clock
from tests.data import chat
from tests.plain_base import make_plain_base


def test_every_hint_twice_looks_once_and_a_lost_promise_is_made_again(
    sqlite_database: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.load_actors()
    data.work_inside(monkeypatch)
    caller = factories.make_caller()
    dataset_id = data.make_dataset(caller, make_plain_base(tmp_path / "plain"))
    path = data.write_lines(tmp_path / "a.jsonl", [*data.chats(19), chat("Of Projekt Falke")])
    version_id = data.draft(caller, data.read_import(caller, dataset_id, path))
    data.check(caller, version_id)
    data.freeze(caller, version_id)
    with unit_of_work() as session:
        safety.set_words(session, caller, "projekt falke")
        safety.check_again(session, caller, version_id)
    with unit_of_work() as session:
        session.delete(session.get_one(Promise, (safety.REACT, version_id)))
    with unit_of_work() as session:
        safety.promise_all(session)
    assert [claim.kind for claim in claim_due()] == [safety.REACT]

    looks: list[int] = []
    real = safety.check_files
    monkeypatch.setattr(safety, "check_files", lambda *given: (looks.append(1), real(*given))[1])
    broker.perform(safety.REACT, str(version_id))
    broker.perform(safety.REACT, str(version_id))

    with reading() as session:
        version = session.get_one(DatasetVersion, version_id)
        assert list(session.exec(select(Promise))) == []
    assert version.report is not None
    assert [one["code"] for one in version.report["safety"]] == ["listed_word"]
    assert (looks, version.safety_asked_at) == ([1], None)
    assert [path.name for path in get_settings().store_dir.iterdir() if path.name.startswith(".work")] == []
