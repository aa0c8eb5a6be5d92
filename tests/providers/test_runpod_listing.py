"""What RunPod's list of Pods means to us: of all of them, and of one name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tensorant_app.domain.errors import Denied, Transient
from tensorant_app.domain.machines import Presence
from tensorant_app.domain.money import FREE, HourlyRate
from tests.providers.answers import (
    INSTALLATION,
    Answers,
    Reply,
    account,
    pod,
    pods,
    problem,
)

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
HTML = httpx.Response(502, html="<html><style>p{}</style><body><h1>Bad gateway</h1></body></html>")


class TestListing:
    def test_a_pod_is_read_tolerantly(self) -> None:
        (found,) = account(Answers(pods(pod()))).listing()

        assert (found.name, found.provider_id, found.provider_status) == ("tune-a", "pod_a", "RUNNING")
        assert (found.presence, found.rate, found.installation) == (
            Presence.PRESENT,
            HourlyRate.dollars("0.86"),
            INSTALLATION,
        )
        assert (found.uptime_s, found.gpu_type, found.gpu_count, found.data_center) == (30, "NVIDIA L40S", 1, "EU-RO-1")
        assert found.started_at == NOON + timedelta(minutes=1)
        assert "stop" in found.actions

    @pytest.mark.parametrize(
        ("status", "presence"),
        [
            ("PROVISIONING", Presence.PRESENT),
            ("STARTING", Presence.PRESENT),
            ("RUNNING", Presence.PRESENT),
            ("EXITED", Presence.STOPPED),
            ("ERROR", Presence.ERROR),
            ("TERMINATED", Presence.GONE),
            ("HIBERNATING", Presence.UNKNOWN),
            (None, Presence.UNKNOWN),
            (7, Presence.UNKNOWN),
        ],
    )
    def test_each_word_for_a_status_and_an_unknown_one(self, status: Any, presence: Presence) -> None:
        (found,) = account(Answers(pods(pod(status=status)))).listing()

        assert found.presence is presence

    @pytest.mark.parametrize(
        ("cost", "status", "rate"),
        [
            (0.0, "RUNNING", None),
            (None, "RUNNING", None),
            ("dear", "RUNNING", None),
            (1.52, "RUNNING", HourlyRate.dollars("1.52")),
            (0.0, "EXITED", FREE),
        ],
    )
    def test_a_running_pod_that_says_zero_does_not_say(self, cost: Any, status: str, rate: HourlyRate | None) -> None:
        (found,) = account(Answers(pods(pod(cost=cost, status=status)))).listing()

        assert found.rate == rate

    def test_a_pod_without_a_runtime_has_no_uptime_and_one_without_gpus_has_none(self) -> None:
        bare = {"id": "x", "name": "tune-x"}

        first, second = account(Answers(pods(pod(runtime=None, gpu={"id": "L4", "count": 0}), bare))).listing()

        assert (first.uptime_s, first.gpu_count) == (None, 0)
        assert (second.presence, second.installation, second.gpu_count) == (Presence.UNKNOWN, None, None)

    @pytest.mark.parametrize(
        "wrap", [lambda cursor: {"nextCursor": cursor}, lambda c: {"pagination": {"nextCursor": c}}]
    )
    def test_a_list_in_pages_is_read_to_its_end(self, wrap: Any) -> None:
        answers = Answers(pods(pod(id="a"), **wrap("more")), pods(pod(id="b"), **wrap(None)))

        found = account(answers).listing()

        assert [machine.provider_id for machine in found] == ["a", "b"]
        assert answers.requests[1].url.params["cursor"] == "more"

    @pytest.mark.parametrize(
        "pages",
        [
            [pods(pod(), nextCursor="same")],
            [pods(pod(), nextCursor="a"), pods(nextCursor="b"), pods(nextCursor="a")],
            [pods(pod(), pagination={"nextCursor": None, "hasNextPage": True})],
            [pods(pod(), hasMore=True)],
        ],
        ids=["never moves", "in a circle", "goes on, and not where", "has more"],
    )
    def test_a_list_whose_end_is_never_reached_is_none(self, pages: list[httpx.Response]) -> None:
        with pytest.raises(Transient, match="says that it goes on"):
            account(Answers(*pages)).listing()

    def test_a_pod_on_two_pages_is_one(self) -> None:
        answers = Answers(pods(pod(), nextCursor="more"), pods(pod(status="EXITED"), pod(id="pod_b")))

        found = account(answers).listing()

        assert [(one.provider_id, one.provider_status) for one in found] == [("pod_a", "EXITED"), ("pod_b", "RUNNING")]

    @pytest.mark.parametrize(
        "reply",
        [
            HTML,
            problem(429, "slow"),
            httpx.ReadTimeout("timed out"),
            httpx.ConnectError("refused"),
            httpx.Response(200, html="<p>welcome</p>"),
            httpx.Response(200, json=[]),
            httpx.Response(200, json={"pods": None}),
            httpx.Response(200),
        ],
        ids=lambda reply: repr(reply)[:40],
    )
    def test_a_list_that_cannot_be_read_is_never_an_empty_one(self, reply: Reply) -> None:
        with pytest.raises(Transient):
            account(Answers(reply)).listing()

    def test_a_low_quota_asks_for_a_rest(self) -> None:
        plenty = pods()
        plenty.headers["RateLimit"] = '"minute";r=176;t=12, "hour";r=7193'
        scarce = pods()
        scarce.headers["RateLimit"] = '"minute";r=3;t=40, "hour";r=2800;t=1812'
        provider = account(Answers(plenty, scarce))

        provider.listing()
        assert provider.pause == timedelta(0)
        provider.listing()
        assert provider.pause == timedelta(seconds=10)

    @pytest.mark.parametrize("header", ["", '"minute"', '"minute";r=;t=x', "r=1", ";;,,", '"minute";r=nan;t=inf'])
    def test_a_quota_that_cannot_be_read_asks_for_nothing(self, header: str) -> None:
        answer = pods()
        answer.headers["RateLimit"] = header
        provider = account(Answers(answer))

        provider.listing()

        assert provider.pause == timedelta(0)


class TestLooking:
    @pytest.mark.parametrize(
        ("listed", "seen"),
        [
            ([], (Presence.ABSENT, ())),
            ([pod()], (Presence.PRESENT, ("pod_a",))),
            ([pod(name="tune-a-2")], (Presence.ABSENT, ())),
            ([pod(env={"TENSORANT_INSTALLATION": "another"})], (Presence.ABSENT, ())),
            ([pod(env={})], (Presence.ABSENT, ())),
            ([{key: value for key, value in pod().items() if key != "env"}], (Presence.PRESENT, ("pod_a",))),
            ([pod(), pod(id="pod_b", status="STARTING")], (Presence.PRESENT, ("pod_a", "pod_b"))),
            ([pod(status="TERMINATED"), pod(id="pod_b", status="EXITED")], (Presence.STOPPED, ("pod_b",))),
            ([pod(status="TERMINATED")], (Presence.GONE, ("pod_a",))),
            ([pod(status="NEW WORD")], (Presence.UNKNOWN, ("pod_a",))),
        ],
    )
    def test_only_the_exact_name_of_this_installation_is_ours(
        self, listed: list[dict[str, Any]], seen: tuple[Presence, tuple[str, ...]]
    ) -> None:
        sighting = account(Answers(pods(*listed))).look("tune-a", "", NOON)

        assert (sighting.presence, sighting.provider_ids) == seen

    def test_one_pod_is_asked_for_by_its_id(self) -> None:
        answers = Answers(httpx.Response(200, json=pod(status="TERMINATED")), problem(404, "pod not found"), HTML)
        provider = account(answers)

        found = provider.find("pod_a")

        assert found is not None
        assert found.presence is Presence.GONE
        assert provider.find("pod_a") is None
        with pytest.raises(Transient):
            provider.find("pod_a")

    def test_an_id_never_leads_elsewhere(self) -> None:
        answers = Answers(httpx.Response(200, json=pod()))

        for wrong in ("../network-volumes/v1", "", "a?b", "a/b", "ä"):
            with pytest.raises(Denied):
                account(answers).terminate(wrong)

        assert answers.requests == []
