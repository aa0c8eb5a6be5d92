"""A member of an organization with a project of a base model that has no weights."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from jobs import broker
from tensorant_app.domain.members import Caller
from tensorant_app.services import versions, work
from tests import data, factories
from tests.conftest import Clock
from tests.plain_base import make_plain_base
from trainer.contract import Base

RUN_PROCESS = work.run_process


@pytest.fixture
def caller(sqlite_database: str, clock: Clock) -> Caller:
    broker.load_actors()
    return factories.make_caller()


@pytest.fixture
def base(tmp_path: Path) -> Base:
    return make_plain_base(tmp_path / "plain")


@pytest.fixture
def dataset_id(caller: Caller, base: Base, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """Empty; its rows are read inside this process, by the plain trainer."""
    data.work_inside(monkeypatch)
    return data.make_dataset(caller, base)


@pytest.fixture
def real_processes(dataset_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "run_process", RUN_PROCESS)
    monkeypatch.setattr(versions, "run_process", RUN_PROCESS)
