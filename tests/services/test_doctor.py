"""What the doctor says of each part, and that a part that does not work is told and never raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorant_app.db import session
from tensorant_app.services.doctor import Line, examine
from tensorant_app.settings import get_settings
from tests.conftest import Clock


@pytest.fixture
def trainer(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """What the trainer's interpreter answers."""

    def answers(answer: object) -> None:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
        python.chmod(0o755)
        monkeypatch.setenv("TENSORANT_TRAINER_PYTHON", str(python))
        get_settings.cache_clear()

    answers({"ok": True, "device": "cpu", "versions": {"torch": "2.13.0"}})
    return answers


def lines(program: str | None = "/usr/bin/redis-server") -> dict[str, Line]:
    return {line.part: line for line in examine(lambda: program)}


@pytest.mark.usefixtures("database", "clock", "trainer")
def test_a_whole_installation_is_well_on_either_database() -> None:
    found = lines()

    assert list(found) == ["versions", "data folder", "database", "provider", "redis", "trainer", "leftovers"]
    assert all(line.is_well for line in found.values())
    assert found["database"].sentence.endswith("tables up to date")
    assert str(get_settings().data_dir) in found["data folder"].sentence
    assert "torch 2.13.0" in found["trainer"].sentence
    assert found["redis"].sentence == "/usr/bin/redis-server"


@pytest.mark.usefixtures("sqlite_database", "clock", "trainer")
def test_without_a_redis_it_is_well_and_says_so() -> None:
    line = lines(None)["redis"]

    assert line.is_well
    assert line.sentence.startswith("none found: hints stay inside the worker")


@pytest.mark.usefixtures("data_dir", "clock", "trainer")
def test_a_database_without_tables_is_told_with_what_to_do() -> None:
    line = lines()["database"]

    assert not line.is_well
    assert "The database is at version nothing" in line.sentence
    assert "run `tensorant up`" in line.sentence


@pytest.mark.usefixtures("clock", "trainer")
def test_a_database_that_does_not_answer_is_told_without_its_password(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORANT_DATABASE_URL", "postgresql://ann:very-secret@127.0.0.1:1/none")
    get_settings.cache_clear()
    session.dispose()

    line = lines()["database"]

    assert not line.is_well
    assert "127.0.0.1:1/none does not answer" in line.sentence
    assert "very-secret" not in line.sentence


def test_a_trainer_that_cannot_train_is_told(
    sqlite_database: str, clock: Clock, trainer: Callable[[object], None]
) -> None:
    trainer({"ok": False, "error": "No module named 'peft'"})

    line = lines()["trainer"]

    assert not line.is_well
    assert "No module named 'peft'" in line.sentence
