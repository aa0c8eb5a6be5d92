"""Reading what a machine wrote."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import NotFound
from tensorant_app.domain.members import Caller
from tensorant_app.services import logs
from tensorant_app.services.connections import volume_for
from tensorant_app.services.logs import Cursor, News
from tests.conftest import NOON
from tests.factories import ask_machine, make_caller, make_run
from tests.trained import metric_lines


@pytest.fixture
def run_id(caller: Caller) -> UUID:
    run_id = make_run(caller, attempt=1)
    ask_machine(caller, run_id, NOON)
    return run_id


def append(run_id: UUID, name: str, text: str, attempt: int = 1) -> None:
    with reading() as session:
        path = volume_for(session, run_id).fetch(f"runs/{run_id}/out/{attempt}/{name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def read(caller: Caller, run_id: UUID, cursor: Cursor | None = None) -> News:
    with reading() as session:
        return logs.read_log(session, caller, run_id, cursor or Cursor())


def test_the_last_200_lines_come_first_and_then_only_what_is_new(caller: Caller, run_id: UUID) -> None:
    append(run_id, "log.txt", "".join(f"line {n}\n" for n in range(500)))

    first = read(caller, run_id)
    append(run_id, "log.txt", "one more\nand hal")
    second = read(caller, run_id, first.cursor)

    assert (len(first.lines), first.lines[-1].words, first.begins) == (200, "line 499", True)
    assert ([line.words for line in second.lines], second.begins) == (["one more"], False)
    assert read(caller, run_id, second.cursor).lines == []


def test_secrets_never_leave_the_file(caller: Caller, run_id: UUID) -> None:
    append(run_id, "log.txt", "Authorization: Bearer hf_abcdefghijklmnopqrstuvwxyz0123\n")

    assert "hf_abc" not in read(caller, run_id).lines[0].words


def test_steps_and_events_stand_in_the_order_of_their_times(caller: Caller, run_id: UUID) -> None:
    append(run_id, "metrics.jsonl", "".join(f"{line}\n" for line in metric_lines(2)))
    event = {"at": "2026-12-01T12:00:01.500+00:00", "kind": "checkpoint", "step": 1, "name": "step-1"}
    append(run_id, "events.jsonl", json.dumps(event) + "\n")

    assert [line.words.split(" loss")[0] for line in read(caller, run_id).lines] == [
        "step 1",
        "checkpoint step 1 name step-1",
        "step 2",
    ]


def test_what_is_only_printed_stands_where_it_was_printed(caller: Caller, run_id: UUID) -> None:
    append(run_id, "log.txt", "before loading\n")
    loaded = {"at": "2026-12-01T12:00:00.500+00:00", "kind": "model_loaded", "log": len("before loading\n")}
    append(run_id, "events.jsonl", json.dumps(loaded) + "\n")
    append(run_id, "metrics.jsonl", "".join(f"{line}\n" for line in metric_lines(2)))
    append(run_id, "log.txt", "Traceback of an error\n  its second line\n")

    first = read(caller, run_id)
    failed = {"at": "2026-12-01T12:00:09.500+00:00", "kind": "failed", "code": "crashed", "log": 80}
    append(run_id, "log.txt", "and its end\n")
    append(run_id, "events.jsonl", json.dumps(failed) + "\n")

    assert [line.words.split(" loss")[0] for line in first.lines] == [
        "before loading",
        "model loaded",
        "step 1",
        "step 2",
        "Traceback of an error",
        "  its second line",
    ]
    assert [line.words for line in read(caller, run_id, first.cursor).lines] == ["and its end", "failed code crashed"]


def test_trouble_is_told_by_its_level(caller: Caller, run_id: UUID) -> None:
    append(run_id, "log.txt", "UserWarning: slow\nRuntimeError: CUDA out of memory\nfine\n")

    assert [line.level for line in read(caller, run_id).lines] == ["warning", "error", "info"]


def test_the_next_attempt_begins_anew(caller: Caller, run_id: UUID) -> None:
    append(run_id, "log.txt", "first\n")
    cursor = read(caller, run_id).cursor
    with unit_of_work() as session:
        session.get_one(Run, run_id).attempt = 2
    append(run_id, "log.txt", "second\n", attempt=2)

    news = read(caller, run_id, cursor)

    assert ([line.words for line in news.lines], news.begins) == (["second"], True)


def test_events_of_run_and_machine_stand_together(caller: Caller, run_id: UUID) -> None:
    with reading() as session:
        found = logs.list_happenings(session, caller, run_id)

    assert [happening.verb for happening in found] == ["ask"]
    assert found[0].subject.startswith("tune-")


def test_another_organization_reads_nothing(caller: Caller, run_id: UUID) -> None:
    with pytest.raises(NotFound):
        read(make_caller(name="Other"), run_id)
