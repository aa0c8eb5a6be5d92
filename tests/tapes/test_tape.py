"""Tapes as people write them: whose turn a reply is, what a time or an event says, and what is left out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.tapes.acts import Act, act_in
from tests.tapes.entries import Call
from tests.tapes.moments import later_in, time_in, time_of_day_in
from tests.tapes.tape import BadTape, Tape

NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)
POD = "/v2/pods/pod_z1"


def read(tmp_path: Path, *replies: dict[str, Any], **more: Any) -> Tape:
    path = tmp_path / "input-tape.json"
    path.write_text(json.dumps({"clock": NOON.isoformat(), "run": {"id": "r-8"}, "replies": replies, **more}))
    return Tape.read(path)


def bodies(tape: Tape, *calls: str, minutes: float = 0, **query: str) -> list[Any]:
    found = []
    for words in calls:
        method, path = words.split(" ")
        reply = tape.answer(Call(method, path, query), NOON + timedelta(minutes=minutes))
        found.append(reply.body if reply else None)
    return found


def test_replies_come_in_their_order_and_the_last_holds_for_ever(tmp_path: Path) -> None:
    tape = read(
        tmp_path,
        {"on": "GET /v2/pods", "body": 1},
        {"on": "GET /v2/pods", "body": 2, "times": 2},
        {"on": "GET /v2/pods", "body": 3},
    )

    assert bodies(tape, *["GET /v2/pods"] * 6) == [1, 2, 2, 3, 3, 3]


def test_what_was_said_last_holds_until_the_next_reply_may_come(tmp_path: Path) -> None:
    tape = read(
        tmp_path,
        {"on": f"GET {POD}", "body": "up", "times": 1},
        {"on": f"GET {POD}", "body": "late", "from_": "+5m"},
        {"on": f"GET {POD}", "body": "gone", "after": "DELETE"},
    )

    assert bodies(tape, *[f"GET {POD}"] * 3) == ["up", "up", "up"]
    assert bodies(tape, f"GET {POD}", minutes=6) == ["late"]
    tape.note("DELETE", "/v2/pods/pod_another", 204)
    assert bodies(tape, f"GET {POD}", minutes=6) == ["late"], "a deletion of another machine"
    tape.note("DELETE", POD, 204)
    assert bodies(tape, f"GET {POD}", minutes=6) == ["gone"]


def test_all_replies_of_one_stage_are_given(tmp_path: Path) -> None:
    tape = read(
        tmp_path,
        {"on": f"GET {POD}", "body": "up", "repeat": True},
        {"on": f"GET {POD}", "body": "still there", "times": 2, "after": "DELETE 204"},
        {"on": f"GET {POD}", "body": "gone", "after": "DELETE 204"},
    )
    assert bodies(tape, f"GET {POD}") == ["up"]
    tape.note("DELETE", POD, 204)

    assert bodies(tape, *[f"GET {POD}"] * 4) == ["still there", "still there", "gone", "gone"]


def test_pages_and_owners_of_a_call_choose_their_reply_and_other_parameters_do_not(tmp_path: Path) -> None:
    tape = read(
        tmp_path,
        {"on": "GET /v2/pods?limit=50", "body": "first page", "repeat": True},
        {"on": "GET /v2/pods?cursor=c2", "body": "second page", "repeat": True},
        {"on": "GET /v2/billing/pods?podId=pod_z1&bucketSize=day", "body": "bill"},
        {"on": "DELETE /v2/pods/{id}", "body": "any"},
    )

    assert bodies(tape, "GET /v2/pods") == ["first page"]
    assert bodies(tape, "GET /v2/pods", cursor="c2") == ["second page"]
    assert bodies(tape, "GET /v2/billing/pods", podId="pod_z1", bucketSize="hour") == ["bill"]
    assert bodies(tape, "GET /v2/billing/pods", podId="pod_other") == [None]
    assert bodies(tape, "DELETE /v2/pods/pod_7") == ["any"]


def test_words_of_an_event_end_what_holds_until_then(tmp_path: Path) -> None:
    tape = read(
        tmp_path,
        {"on": "POST /v2/pods", "body": "no money", "until": "balance topped up"},
        {"on": "POST /v2/pods", "body": "made", "after": "balance topped up"},
    )
    assert bodies(tape, "POST /v2/pods") == ["no money"]
    tape.note_word("+1h: the owner says that the balance is low")
    assert bodies(tape, "POST /v2/pods") == ["no money"]
    tape.note_word("+2h: the balance was topped up")

    assert bodies(tape, "POST /v2/pods") == ["made"]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("+14m: the host is lost", 14),
        ("at +1h30m", 90),
        ("+90 min", 90),
        ("+1:05", 65),
        ("+5 minutes", 5),
        ("2026-11-03T12:20:00Z", 20),
        ("2026-11-03T12:20Z the host is lost", 20),
        ("2026-11-03 12:20", 20),
        ("+5m member cancels", 5),
        ("half an hour on", None),
    ],
)
def test_times_are_read_as_people_write_them(text: str, minutes: float | None) -> None:
    assert time_in(text, NOON) == (None if minutes is None else NOON + timedelta(minutes=minutes))


def test_times_of_day_and_spans_in_words() -> None:
    assert time_of_day_in("at 12:20 the host is lost", NOON) == NOON + timedelta(minutes=20)
    assert time_of_day_in("00:10Z", NOON) == NOON + timedelta(hours=12, minutes=10)
    assert later_in("member cancels two hours later") == timedelta(hours=2)
    assert later_in("much later") is None


def test_events_have_their_own_time_or_that_of_the_one_before(tmp_path: Path) -> None:
    events = [
        "member launches",
        {"at": "+10m", "event": "the host is lost"},
        "nobody notices",
        {"text": "owner looks", "time": "2026-11-03T13:00:00Z", "unknown": 1},
        {"what": "member cancels", "after": "DELETE 403"},
    ]

    told = [(event.at, event.text, event.after) for event in read(tmp_path, events=events).events]

    ten, hour = NOON + timedelta(minutes=10), NOON + timedelta(hours=1)
    assert told == [
        (NOON, "member launches", None),
        (ten, "the host is lost", None),
        (ten, "nobody notices", None),
        (hour, "owner looks", None),
        (hour, "member cancels", "DELETE 403"),
    ]


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("owner launches again 5 minutes later, same reply", Act.LAUNCH),
        ("member tries again", Act.LAUNCH),
        ("launch", Act.LAUNCH),
        ("the launch answer is lost", None),
        ("member cancels the run while the launch is being checked", Act.CANCEL),
        ("member confirms that the Pod is absent", Act.CONFIRM_ABSENT),
        ("nobody confirms that the Pod is absent", None),
        ("owner presses Retry cleanup", Act.RETRY_CLEANUP),
        ("the key was replaced by a read-only one meanwhile", None),
        ("the key is revoked", None),
        ("owner stores a key with write access at +55m", Act.SAVE_KEY),
        ("new key", Act.SAVE_KEY),
        ("member resumes with a longer limit", Act.EXTEND),
        ("member resumes the run", Act.RESUME),
        ("member pauses", Act.PAUSE),
        ("member presses Verify adapter on RunPod", Act.VERIFY),
        ("the console is off from +10m to +3h", Act.OFF),
        ("the worker is killed and restarted", Act.RESTART),
        ("the server's clock is set back by 1 hour", Act.CLOCK),
        ("the network is down for 20 minutes", Act.CUT),
        ("+14m: the host is lost; the machine disappears", None),
        ("the container ends with exit code 0; the provider starts it again, twice", None),
    ],
)
def test_an_event_asks_for_at_most_one_act(text: str, act: Act | None) -> None:
    assert act_in(text) is act


@pytest.mark.parametrize("content", ["{", "[]x", '{"replies": []}', '"text"'])
def test_what_is_no_tape_of_a_run_is_said(tmp_path: Path, content: str) -> None:
    path = tmp_path / "input-tape.json"
    path.write_text(content)

    with pytest.raises(BadTape, match=r"input-tape\.json"):
        Tape.read(path)
