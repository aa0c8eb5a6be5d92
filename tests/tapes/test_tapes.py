"""Tapes of a rented machine's worst days, each with the one right ending: what was asked, what is shown, what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.tapes.marks import Played
from tests.tapes.play import play

NOON = "2026-11-03T12:00:00Z"
RUN = {"id": "r-8", "pod_name": "tune-r-8", "list_price_limit": 1.5, "max_runtime_hours": 2}
AT_WORK = {**RUN, "pod": "pod_z1", "cost": 1.2}
POD = "/v2/pods/pod_z1"
GONE = {"on": f"GET {POD}", "status": 404, "body": {"title": "Not Found", "status": 404, "detail": "pod not found"}}


def pod(status: str = "RUNNING", uptime: int | None = 90, *, cost: float = 1.2, **changes: Any) -> dict[str, Any]:
    runtime = None if uptime is None else {"uptime": uptime, "gpus": [], "ports": []}
    return {
        "id": "pod_z1",
        "name": "tune-r-8",
        "status": status,
        "gpu": {"id": "NVIDIA L40S", "count": 1},
        "cost": cost,
        "dataCenterId": "EU-TEST-2",
        "runtime": runtime,
        "actions": ["stop", "terminate"],
        **changes,
    }


def says(on: str, status: int | None, body: Any = None, **more: Any) -> dict[str, Any]:
    return {"on": on, "status": status, "body": body, **more}


def problem(status: int, detail: str, **more: Any) -> dict[str, Any]:
    return {"title": "x", "status": status, "detail": detail, **more}


@pytest.fixture
def tell(tmp_path: Path) -> Any:
    def tell(
        run: dict[str, Any],
        *replies: dict[str, Any],
        events: Sequence[str] = (),
        minutes: float | None = None,
        **more: Any,
    ) -> Played:
        """`minutes`: so long it is played; three quarters of an hour beyond its last word where they are not given."""
        path = tmp_path / "input-tape.json"
        until = None if minutes is None else timedelta(minutes=minutes)
        path.write_text(json.dumps({"clock": NOON, "run": run, "replies": replies, "events": list(events), **more}))
        return play(path, tmp_path, until=until)

    return tell


def deletes(played: Played) -> int:
    return played.calls.get(f"DELETE {POD}", 0)


def test_no_capacity_is_one_request_a_launch_and_costs_nothing(tell: Any) -> None:
    refusal = says("POST /v2/pods", 400, problem(400, "There are no instances available with these specifications"))
    listed = says("GET /v2/pods", 200, {"pods": [], "nextCursor": None})

    played = tell(RUN, refusal, listed, events=["owner launches once", "owner launches again 7 minutes later"])

    assert played.calls["POST /v2/pods"] == 2
    assert (played.end.label, played.end.slot_held, played.end.estimate) == ("Failed", False, "0.00")
    assert "no capacity" in played.end.reason
    assert "NVIDIA L40S in EU-TEST-1" in played.end.reason


def test_an_image_that_cannot_be_pulled_ends_after_twenty_minutes_with_the_providers_own_words(tell: Any) -> None:
    played = tell(
        RUN,
        says("POST /v2/pods", 201, pod("PROVISIONING", None)),
        says(f"GET {POD}", 200, pod("STARTING", None), repeat_until="+30m"),
        says(f"GET {POD}/logs", 200, "error pulling image: manifest unknown\n", repeat=True),
        says(f"DELETE {POD}", 204),
        {**GONE, "after": "DELETE"},
        minutes=30,
    )

    failed = next(mark for mark in played.marks if mark.label == "Failed")
    assert failed.at == "2026-11-03T12:20:00Z"
    assert "manifest unknown" in failed.reason
    assert (failed.estimate, failed.slot_held, failed.badge) == ("0.40", True, "Releasing")
    assert deletes(played) == 1
    assert not played.end.slot_held


def test_a_host_whose_driver_is_too_old_is_given_back_within_three_minutes(tell: Any) -> None:
    """RUNNING, billed, and its container is tried again for ever."""
    said = "start container\nerror starting container: unsatisfied condition: cuda>=12.8, please update your driver\n"
    played = tell(
        RUN,
        says("POST /v2/pods", 201, pod("PROVISIONING", None)),
        says(f"GET {POD}", 200, pod(uptime=None), repeat_until="+30m"),
        says(f"GET {POD}/logs", 200, said, repeat=True),
        says(f"DELETE {POD}", 204),
        {**GONE, "after": "DELETE"},
        minutes=30,
    )

    failed = next(mark for mark in played.marks if mark.label == "Failed")
    assert "2026-11-03T12:01:00Z" < failed.at < "2026-11-03T12:03:00Z"
    assert "driver is too old" in failed.reason
    assert "unsatisfied condition: cuda>=12.8" in failed.reason
    assert deletes(played) == 1
    assert not played.end.slot_held


def test_a_refused_field_is_quoted_and_is_no_lack_of_capacity(tell: Any) -> None:
    detail = problem(422, "Request validation failed.", errors=["$: additional properties 'gpuTypeIds' not allowed"])

    played = tell(RUN, says("POST /v2/pods", 422, detail))

    assert played.calls["POST /v2/pods"] == 1
    assert "'gpuTypeIds' not allowed" in played.end.reason
    assert "capacity" not in played.end.reason


def test_a_gpu_that_is_too_old_is_given_back_before_anything_is_downloaded(tell: Any) -> None:
    played = tell(
        RUN,
        says("POST /v2/pods", 201, pod("PROVISIONING", None)),
        says(f"GET {POD}", 200, pod(uptime=40), repeat=True),
        says("trainer first message", 200, {"gpu_count": 1, "compute_capability": "7.5", "gpu_name": "old GPU"}),
        says(f"DELETE {POD}", 204),
        {**GONE, "after": "DELETE"},
    )

    assert (played.end.label, played.end.machine) == ("Failed", "released")
    assert "compute capability 7.5" in played.end.reason
    assert deletes(played) == 1


class TestALostAnswer:
    OTHER = pod(id="pod_o", name="tune-r-80")

    def test_is_looked_for_by_the_whole_name_and_adopted_without_a_second_request(self, tell: Any) -> None:
        played = tell(
            RUN,
            says("POST /v2/pods", 502, "<html>bad gateway</html>"),
            says("GET /v2/pods", 200, {"pods": [self.OTHER]}, times=3),
            says("GET /v2/pods", 200, {"pods": [self.OTHER, pod("STARTING", None)]}, repeat=True),
            says(f"GET {POD}", 200, pod(uptime=15), repeat=True),
            minutes=15,
        )

        assert played.marks[0].label == "Checking launch"
        assert played.calls["POST /v2/pods"] == 1
        assert played.facts["provider_id"] == "pod_z1"
        assert (played.end.label, played.end.estimate) == ("Training", "0.30")
        assert played.facts["training_starts"] == 1
        assert "DELETE /v2/pods/pod_o" not in played.calls

    @pytest.mark.parametrize("body", [[], {"name": "tune-r-8"}, "created", None, {"id": 7}])
    def test_that_names_no_machine_is_looked_for_too(self, tell: Any, body: Any) -> None:
        played = tell(
            RUN,
            says("POST /v2/pods", 201, body),
            says("GET /v2/pods", 200, {"pods": []}, times=3),
            says(f"GET {POD}", 200, pod(uptime=15), repeat=True),
            minutes=5,
        )

        assert "Checking launch" in [mark.label for mark in played.marks]
        assert played.calls["POST /v2/pods"] == 1
        assert (played.end.label, played.facts["provider_id"]) == ("Training", "pod_z1")

    def test_is_found_on_the_second_page_of_a_list(self, tell: Any) -> None:
        first = {"pods": [self.OTHER], "pagination": {"nextCursor": "c2", "hasNextPage": True}}
        played = tell(
            RUN,
            says("POST /v2/pods", 502, "<html>bad gateway</html>"),
            says("GET /v2/pods", 200, first, repeat=True),
            says("GET /v2/pods?cursor=c2", 200, {"pods": [pod("STARTING", None)]}, repeat=True),
            minutes=3,
        )

        assert (played.end.label, played.facts["provider_id"]) == ("Launching", "pod_z1")
        assert (played.facts["posts"], played.facts["touched"]) == (1, [])

    def test_that_made_two_is_adopted_once_a_person_ended_one_of_them(self, tell: Any) -> None:
        both = [pod("STARTING", None), pod("STARTING", None, id="pod_z2")]
        played = tell(
            RUN,
            says("POST /v2/pods", 500, problem(500, "x")),
            says("GET /v2/pods", 200, {"pods": both}, until="DELETE /v2/pods/pod_z1"),
            says("GET /v2/pods", 200, {"pods": both[1:]}),
            says(f"DELETE {POD}", 204),
            events=["+5m: owner terminates pod_z1", "+7m: look"],
            minutes=8,
        )

        assert (played.before("terminates").label, played.before("terminates").slot_held) == ("Checking launch", True)
        assert (played.at("+7m").label, played.facts["provider_id"]) == ("Launching", "pod_z2")
        assert (played.facts["posts"], played.facts["deletes"]) == (1, 1)

    def test_is_not_followed_by_a_second_launch_before_a_person_confirmed(self, tell: Any) -> None:
        played = tell(
            RUN,
            says("POST /v2/pods", None, fault="time-out", times=1),
            says("POST /v2/pods", 201, pod("PROVISIONING", None)),
            says("GET /v2/pods", 200, {"pods": []}),
            events=[
                "+5m: member confirms the Pod absent",
                "+6m: member launches again",
                "+11m: member confirms the Pod absent",
            ],
            minutes=12,
        )

        assert len(played.facts["refused"]) == 2
        assert (played.end.label, played.facts["posts"]) == ("Cancelled", 1)

    def test_that_never_shows_keeps_its_slot_until_a_person_confirms(self, tell: Any) -> None:
        played = tell(
            RUN,
            says("POST /v2/pods", None, fault="time-out"),
            says("GET /v2/pods", 200, {"pods": [self.OTHER]}),
            events=["+9m: nothing yet", "+12m: nothing yet", "+15m: member confirms that the Pod is absent"],
            minutes=25,
        )

        early, late = played.at("+9m"), played.at("+12m")
        assert (early.label, early.slot_held, early.can_confirm_absent) == ("Checking launch", True, False)
        assert (late.label, late.slot_held, late.can_confirm_absent) == ("Checking launch", True, True)
        assert (played.end.label, played.end.machine, played.end.slot_held) == ("Cancelled", "absent", False)
        assert played.calls["POST /v2/pods"] == 1


class TestARelease:
    def test_that_fails_three_times_holds_the_slot_until_the_provider_says_terminated(self, tell: Any) -> None:
        played = tell(
            {**AT_WORK, "state": "Adapter ready, releasing"},
            says(f"DELETE {POD}", 503, problem(503, "try later"), times=1),
            says(f"DELETE {POD}", None, fault="time-out", times=2),
            says(f"DELETE {POD}", 204),
            says(f"GET {POD}", 200, pod(), until="DELETE 204"),
            says(f"GET {POD}", 200, pod("TERMINATED", None, cost=0), after="DELETE 204"),
        )

        stuck = next(mark for mark in played.marks if mark.machine == "release_failed")
        assert (stuck.label, stuck.badge, stuck.slot_held) == ("Adapter ready", "GPU release failed", True)
        assert deletes(played) == 4
        assert (played.end.label, played.end.machine, played.end.slot_held) == ("Adapter ready", "released", False)

    def test_of_a_container_that_starts_again_and_again_trains_once(self, tell: Any) -> None:
        words = [
            {"boot": 1, "event": "start"},
            {"boot": 1, "event": "finished", "manifest": "ok"},
            {"boot": 2, "event": "start"},
        ]
        played = tell(
            AT_WORK,
            says("trainer messages", 200, words),
            says(f"GET {POD}", 200, pod(uptime=2_400), times=1),
            says(f"GET {POD}", 200, pod(uptime=2), times=1),
            says(f"GET {POD}", 200, pod(uptime=5)),
            says(f"DELETE {POD}", 204),
            {**GONE, "after": "DELETE"},
        )

        assert played.facts["training_starts"] == 1
        assert (played.end.label, played.end.machine) == ("Adapter ready", "released")
        assert deletes(played) == 1

    def test_that_the_key_may_not_do_is_done_as_soon_as_another_key_is_saved(self, tell: Any) -> None:
        forbidden = problem(403, "no write access")
        played = tell(
            {**AT_WORK, "state": "Training"},
            says(f"GET {POD}", 200, pod(uptime=1_000), repeat=True),
            says(f"DELETE {POD}", 403, forbidden, until="new key"),
            says(f"DELETE {POD}", 204, after="new key"),
            {**GONE, "after": "DELETE 204"},
            events=["member cancels the run at +5m", "owner stores a key with write access at +15m"],
        )

        told = played.before("owner stores")
        assert (told.label, told.badge, told.estimate) == ("Cancelled", "GPU release failed", "0.30")
        assert "may not delete Pods" in told.reason
        gone = next(mark for mark in played.marks if mark.machine == "released")
        assert gone.at <= "2026-11-03T12:17:00Z"


class TestAYoungMachine:
    """Within ten minutes of its create call."""

    def test_that_was_listed_is_gone_when_three_looks_after_its_delete_agree(self, tell: Any) -> None:
        played = tell(
            RUN,
            says("POST /v2/pods", 201, pod("PROVISIONING", None)),
            says(f"GET {POD}", 200, pod("STARTING", None)),
            says(f"DELETE {POD}", 204),
            {**GONE, "after": "DELETE"},
            events=["+2m: member cancels while the image is pulled", "+4m: look"],
        )

        late = played.at("+4m")
        assert (late.label, late.badge, late.machine, late.slot_held) == ("Cancelled", "", "released", False)
        assert (deletes(played), late.estimate) == (1, "0.04")

    def test_above_its_price_limit_is_deleted_once_and_costs_seconds(self, tell: Any) -> None:
        played = tell(
            {**RUN, "list_price_limit": 1.0},
            says("POST /v2/pods", 201, pod("PROVISIONING", None, cost=1.52)),
            says(f"DELETE {POD}", 204),
            {**GONE, "after": "DELETE"},
            minutes=3,
        )

        assert (played.end.label, played.end.machine, played.end.estimate) == ("Failed", "released", "0.00")
        assert "$1.52/h" in played.end.reason
        assert (played.facts["posts"], deletes(played)) == (1, 1)

    def test_that_nobody_ever_saw_may_still_show_up(self, tell: Any) -> None:
        played = tell(
            {**RUN, "list_price_limit": 1.0},
            says("POST /v2/pods", 201, pod("PROVISIONING", None, cost=1.52)),
            says(f"DELETE {POD}", 404, problem(404, "pod not found")),
            GONE,
            events=["+9m: look", "+12m: look"],
        )

        assert (played.at("+9m").slot_held, played.at("+12m").slot_held) == (True, False)
        assert "nothing proves yet" in played.at("+9m").reason

    def test_of_a_second_request_is_not_taken_for_the_first_ones(self, tell: Any) -> None:
        played = tell(
            RUN,
            says("POST /v2/pods", 429, problem(429, "slow down"), headers={"Retry-After": "30"}, times=1),
            says("POST /v2/pods", 201, pod("PROVISIONING", None)),
            says(f"GET {POD}", 200, pod(), repeat=True),
            minutes=10,
        )

        assert (played.end.label, played.facts["posts"], deletes(played)) == ("Training", 2, 0)


def test_a_machine_with_several_gpus_costs_what_all_of_them_do(tell: Any) -> None:
    four = {"gpu": {"id": "NVIDIA L40S", "count": 4}, "cost": 3.44}
    played = tell(
        {**RUN, "list_price_limit": 4.0},
        says("POST /v2/pods", 201, {**pod("PROVISIONING", None), **four}),
        says(f"GET {POD}", 200, {**pod(), **four}, repeat=True),
        minutes=30,
    )

    assert (played.end.label, played.end.estimate) == ("Training", "1.72")


def test_a_key_that_was_refused_at_the_launch_is_replaced_and_the_next_launch_works(tell: Any) -> None:
    played = tell(
        RUN,
        says("POST /v2/pods", 401, problem(401, "no such key"), until="new key"),
        says("POST /v2/pods", 201, pod("PROVISIONING", None), after="new key"),
        says(f"GET {POD}", 200, pod(), repeat=True),
        events=["member launches", "+5m: owner saves a new key", "+6m: member launches again"],
        minutes=8,
    )

    assert (played.at("member launches").label, played.end.label) == ("Failed", "Training")
    assert played.facts["posts"] == 2


def test_a_machine_that_is_lost_when_hardly_any_time_is_left_goes_to_a_person(tell: Any) -> None:
    played = tell(
        {**AT_WORK, "max_runtime_hours": 1, "started": "2026-11-03T11:00:30Z", "losses": 0},
        says("POST /v2/pods", 201, pod("PROVISIONING", None, id="pod_z2")),
        says(f"GET {POD}", 200, pod(), times=1),
        GONE,
        says(f"DELETE {POD}", 404, problem(404, "pod not found")),
        minutes=5,
    )

    assert (played.end.label, played.facts["posts"]) == ("Needs recovery", 0)
    assert "no time for another attempt" in played.end.reason


def test_a_bare_timeline_of_a_trainer_is_a_tape(tmp_path: Path) -> None:
    steps = [{"event": "step", "n": n} for n in range(1, 6)]
    restart = [{"event": "container restarted by provider", "after_step": 5}]
    path = tmp_path / "input-timeline.json"
    path.write_text(
        json.dumps(
            [
                *steps,
                {"event": "checkpoint", "step": 4},
                *restart,
                {"event": "trainer starts", "found": ["checkpoint-4"]},
            ]
        )
    )

    played = play(path, tmp_path, until=timedelta(minutes=4))

    assert (played.facts["boots"], played.facts["training_starts"], played.end.label) == (2, 2, "Training")
    assert [n for _, n in played.facts["steps"]] == [1, 2, 3, 4, 5]
    assert any("start 2 of this machine" in line for line in played.facts["history"])


def test_a_console_that_comes_back_late_deletes_once_whichever_stop_is_first(tell: Any) -> None:
    played = tell(
        {**AT_WORK, "max_runtime_hours": 1},
        says(f"GET {POD}", 200, pod(), repeat=True),
        says(f"DELETE {POD}", 204),
        {**GONE, "after": "DELETE"},
        events=["the console is off from +30m to +3h"],
    )

    assert (played.end.label, played.end.machine, deletes(played)) == ("Needs recovery", "released", 1)
    assert played.end.estimate == "3.60"


class TestMoney:
    def test_a_late_bill_in_pieces_over_the_night_of_the_clocks_is_exact(self, tell: Any) -> None:
        def hour(start: str, amount: float, of: str = "pod_z1") -> dict[str, Any]:
            return {"podId": of, "startTime": start, "totalAmount": amount}

        first = [hour("2026-10-24T22:00:00Z", 0.3005), hour("2026-10-24T22:00:00Z", 9.9, "pod_of_another")]
        whole = [*first, hour("2026-10-24T23:00:00Z", 1.2011), hour("2026-10-25T00:00:00Z", 0.8007)]
        late = "2026-10-25T02:30:00Z"
        played = tell(
            {**AT_WORK, "started": "2026-10-24T22:45:00Z", "released": "2026-10-25T00:40:00Z"},
            says(f"GET {POD}", 200, pod(uptime=0, cost=0.0), times=3),
            says(f"GET {POD}", 200, pod(uptime=300), repeat=True),
            says("GET /v2/billing/pods", 200, {"records": []}, until="2026-10-25T01:30:00Z"),
            says("GET /v2/billing/pods", 200, {"records": first}, until=late),
            says("GET /v2/billing/pods", 200, {"records": whole}, repeat=True),
            says("GET /v2/billing/pods without both startTime and endTime", 400, problem(400, "both or none")),
            clock="2026-10-25T00:20:00Z",
            server_timezone="Europe/Berlin",
        )

        assert played.facts["deadline"] == "2026-10-25T00:45:00Z"
        assert (played.end.estimate, played.end.machine) == ("2.30", "released")
        assert (played.at(late).actual, played.at(late).spend) == ("0.3005", "open")
        assert played.end.actual == "2.3023"
        assert all(mark.estimate != "0.00" for mark in played.marks)

    def test_a_bill_of_zero_is_none_yet(self, tell: Any) -> None:
        def bill(amount: float) -> dict[str, Any]:
            return {"records": [{"podId": "pod_z1", "startTime": NOON, "totalAmount": amount}]}

        played = tell(
            {**AT_WORK, "started": NOON, "released": "2026-11-03T12:30:00Z"},
            says(f"GET {POD}", 200, pod(), repeat=True),
            says("GET /v2/billing/pods", 200, bill(0.0), until="+2h"),
            says("GET /v2/billing/pods", 200, bill(0.6214), repeat=True),
        )

        assert (played.at("+2h").actual, played.at("+2h").spend, played.at("+2h").estimate) == (
            None,
            "estimated",
            "0.60",
        )
        assert played.end.actual == "0.6214"

    def test_a_machine_that_disappears_a_second_time_ends_the_run_where_it_was(self, tell: Any) -> None:
        limited = says(f"GET {POD}", 429, problem(429, "slow down"), headers={"Retry-After": "15"}, times=1)
        played = tell(
            AT_WORK,
            says(f"GET {POD}", 200, pod(uptime=600), until="+12m"),
            limited,
            GONE,
            says("GET /v2/pods", 200, {"pods": []}, repeat=True),
            says(f"DELETE {POD}", 404, problem(404, "pod not found")),
            events=["+12m: the host is lost at step 17 of 60"],
        )

        assert played.at("+12m").estimate == played.end.estimate == "0.24"
        assert (played.end.label, played.end.slot_held) == ("Failed", False)
        assert "second time at step 17 of 60" in played.end.reason
        assert "POST /v2/pods" not in played.calls

    def test_a_machine_that_is_proved_gone_costs_until_it_was_seen_last_or_deleted(self, tell: Any) -> None:
        lost = tell(AT_WORK, says(f"GET {POD}", 200, pod(uptime=600), until="+12m"), GONE, minutes=20)
        cancelled = tell(
            AT_WORK,
            says(f"GET {POD}", 200, pod(uptime=600)),
            says(f"DELETE {POD}", 204),
            {**GONE, "after": "DELETE"},
            events=["+15m: member cancels"],
        )

        assert (lost.end.label, lost.end.machine, lost.end.estimate) == ("Failed", "released", "0.24")
        assert (cancelled.end.machine, cancelled.end.estimate) == ("released", "0.30")

    def test_a_machine_that_may_never_have_been_listed_costs_until_its_release_is_proved(self, tell: Any) -> None:
        nothing = says(f"DELETE {POD}", 404, problem(404, "pod not found"))
        played = tell(RUN, says("POST /v2/pods", 201, pod("PROVISIONING", None)), GONE, nothing)

        assert (played.facts["attempts"], played.end.machine, played.end.estimate) == (2, "released", "0.45")

    def test_one_that_was_confirmed_absent_and_shows_up_costs_from_its_create_call(self, tell: Any) -> None:
        played = tell(
            RUN,
            says("POST /v2/pods", None, fault="connection reset"),
            says("GET /v2/pods", 200, {"pods": []}, until="+20m"),
            says("GET /v2/pods", 200, {"pods": [pod(cost=0.86)]}, until="DELETE 204"),
            says("GET /v2/pods", 200, {"pods": []}),
            says(f"DELETE {POD}", 204),
            events=["+12m: member confirms that the Pod is absent"],
        )

        assert (played.at("confirms").machine, played.at("confirms").estimate) == ("absent", "0.00")
        assert (played.end.label, played.end.machine, played.end.estimate) == ("Cancelled", "released", "0.29")
        assert (played.facts["provider_id"], deletes(played)) == ("pod_z1", 1)

    def test_a_pod_that_has_exited_does_not_cost_as_one_that_computes(self, tell: Any) -> None:
        played = tell(
            AT_WORK,
            says(f"GET {POD}", 200, pod(uptime=600), until="+20m"),
            says(f"GET {POD}", 200, pod("EXITED", None, cost=0)),
            says(f"DELETE {POD}", 503, problem(503, "try later")),
            minutes=60,
        )

        assert (played.end.badge, played.end.slot_held, played.end.estimate) == ("GPU release failed", True, "0.40")

    def test_one_look_that_does_not_find_it_is_not_enough(self, tell: Any) -> None:
        played = tell(
            AT_WORK,
            says(f"GET {POD}", 200, pod(uptime=600), until="+12m"),
            {**GONE, "times": 1},
            says(f"GET {POD}", 200, pod(uptime=1_500), repeat=True),
            minutes=20,
        )

        assert (played.end.label, played.end.machine) == ("Training", "held")


def test_a_container_that_starts_again_goes_on_from_its_checkpoint_and_says_so(tell: Any) -> None:
    words = [
        *({"event": "step", "n": n} for n in range(1, 9)),
        {"event": "checkpoint", "step": 6},
        {"event": "trainer starts", "found": ["checkpoint-6"]},
        *({"event": "step", "n": n} for n in range(7, 13)),
        {"event": "finished", "boot": 2},
    ]
    played = tell(
        {**AT_WORK, "steps": 12},
        says("trainer messages", 200, words),
        says(f"GET {POD}", 200, pod(uptime=500), until="+95s"),
        says(f"GET {POD}", 200, pod(uptime=4), until="+110s"),
        says(f"GET {POD}", 200, pod(uptime=30), repeat=True),
        says(f"DELETE {POD}", 204),
        {**GONE, "after": "DELETE"},
    )

    assert [n for boot, n in played.facts["steps"] if boot == 2] == list(range(7, 13))
    assert played.facts["boots"] == 2
    assert played.end.label == "Adapter ready"
    assert played.end.estimate == played.marks[-1].estimate != "0.00"
