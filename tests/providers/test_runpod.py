"""What each of RunPod's answers means to us, one by one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tensorant_app.domain.errors import AuthFailed, DenialReason, Denied, ProviderError, Transient, Unknown, Unsupported
from tensorant_app.domain.money import HourlyRate
from tensorant_app.providers.base import Storage
from tests.providers.answers import (
    CAPACITY,
    IMAGE,
    INSTALLATION,
    Answers,
    Reply,
    a_request,
    account,
    pod,
    pods,
    problem,
)

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
HTML = httpx.Response(502, html="<html><style>p{}</style><body><h1>Bad gateway</h1></body></html>")


class TestCreating:
    def test_one_pod_is_asked_for_with_everything_that_we_promise(self) -> None:
        answers = Answers(httpx.Response(201, json=pod(status="PROVISIONING", runtime=None)))

        rented = account(answers).create(a_request(secrets={"HF_TOKEN": "tensorant-hf"}, gpu_count=2))

        assert (rented.provider_id, rented.provider_status) == ("pod_a", "PROVISIONING")
        assert (rented.rate, rented.created_at) == (HourlyRate.dollars("0.86"), NOON)
        assert answers.sent == ["POST /v2/pods"]
        assert answers.body() == {
            "name": "tune-a",
            "image": IMAGE,
            "cloud": "SECURE",
            "gpu": {"id": "NVIDIA L40S", "count": 2, "minCudaVersion": "12.8"},
            "mounts": {"network": [{"volumeId": "vol1", "path": "/workspace"}]},
            "disk": 60,
            "ports": [],
            "startSsh": False,
            "env": {
                "TENSORANT_RUN": "a",
                "HF_TOKEN": "{{ RUNPOD_SECRET_tensorant-hf }}",
                "TENSORANT_STORAGE": "volume",
                "TENSORANT_GPU_COUNT": "2",
                "TENSORANT_MACHINE": "tune-a",
                "TENSORANT_INSTALLATION": INSTALLATION,
            },
            "entrypoint": ["/opt/tensorant/boot"],
            "cmd": ["train", "--volume", ".", "--job", "runs/a/in/1/job.json"],
            "dataCenterIds": ["EU-RO-1"],
        }

    def test_every_request_carries_the_key_and_our_name(self) -> None:
        answers = Answers(httpx.Response(201, json=pod()))

        account(answers).create(a_request())

        assert answers.requests[0].headers["Authorization"] == "Bearer rpa_secret"
        assert answers.requests[0].headers["User-Agent"].startswith("tensorant/")

    def test_a_pod_with_a_disk_of_its_own_names_no_volume(self) -> None:
        answers = Answers(httpx.Response(201, json=pod()))

        account(answers).create(a_request(storage=Storage.POD, volume_id=None, data_center=None, disk_gb=5))

        body = answers.body()
        assert body["mounts"] == {"persistent": {"size": 10, "path": "/workspace"}}
        assert "dataCenterIds" not in body
        assert body["env"]["TENSORANT_STORAGE"] == "pod"

    @pytest.mark.parametrize(
        ("reply", "reason", "words"),
        [
            (problem(400, CAPACITY), DenialReason.CAPACITY, "no longer any instances"),
            (problem(400, "no capacity for the requested GPU in EU-TEST-1"), DenialReason.CAPACITY, "EU-TEST-1"),
            (problem(400, "This machine does not have the resources to deploy it"), DenialReason.CAPACITY, "resources"),
            (problem(400, "No suitable machines in this data center"), DenialReason.CAPACITY, "suitable"),
            (problem(400, "The requested GPUs are currently unavailable"), DenialReason.CAPACITY, "unavailable"),
            (
                problem(400, "Could not find any pods with the required specifications"),
                DenialReason.CAPACITY,
                "any pods",
            ),
            (problem(400, "no gpu type of this id"), DenialReason.INVALID, "no gpu type"),
            (problem(400, "mounts.persistent and mounts.network exclude each other"), DenialReason.INVALID, "exclude"),
            (problem(400, "Your account's spend limit of $80/h is reached"), DenialReason.QUOTA, r"\$80/h"),
            (problem(402, "balance"), DenialReason.MONEY, "Add funds"),
            (problem(404, "template not found"), DenialReason.INVALID, "template not found"),
            (problem(413, "request too large"), DenialReason.INVALID, "too large"),
            (
                problem(422, "invalid", ["$: additional properties 'volumeInGb' not allowed"]),
                DenialReason.INVALID,
                "'volumeInGb' not allowed",
            ),
            (problem(410, "REST API v2 is retired"), DenialReason.INVALID, "retired"),
            (httpx.Response(403, html="<h1>error code: 1010</h1>"), DenialReason.UNREACHABLE, "front door"),
            (httpx.ConnectError("[Errno -2] Name or service not known"), DenialReason.UNREACHABLE, "Nothing was sent"),
            (httpx.ConnectError("[Errno 111] Connection refused"), DenialReason.UNREACHABLE, "refused"),
            (httpx.ConnectTimeout("timed out"), DenialReason.UNREACHABLE, "Nothing was sent"),
            (httpx.PoolTimeout("no connection free"), DenialReason.UNREACHABLE, "Nothing was sent"),
        ],
    )
    def test_a_definite_no_says_why_and_is_asked_once(self, reply: Reply, reason: DenialReason, words: str) -> None:
        answers = Answers(reply)

        with pytest.raises(Denied, match=words) as caught:
            account(answers).create(a_request())

        assert caught.value.reason is reason
        assert answers.sent == ["POST /v2/pods"]

    @pytest.mark.parametrize(
        "reply",
        [
            problem(500, "query failed"),
            HTML,
            problem(504, "timeout"),
            problem(408, "request timeout"),
            httpx.Response(302, headers={"Location": "https://elsewhere.example.org"}),
            httpx.Response(201, html="<p>Created</p>"),
            httpx.Response(201, json={"status": "PROVISIONING"}),
            httpx.Response(200),
            httpx.ReadTimeout("timed out"),
            httpx.WriteTimeout("timed out"),
            httpx.ReadError("connection reset by peer"),
            httpx.WriteError("broken pipe"),
            httpx.RemoteProtocolError("Server disconnected without sending a response."),
            httpx.DecodingError("no gzip"),
        ],
        ids=lambda reply: repr(reply)[:40],
    )
    def test_whatever_does_not_rule_out_a_pod_is_unknown_and_never_asked_again(self, reply: Reply) -> None:
        answers = Answers(reply)

        with pytest.raises(Unknown):
            account(answers).create(a_request())

        assert answers.sent == ["POST /v2/pods"]

    def test_too_many_requests_is_definite_and_tells_how_long_to_wait(self) -> None:
        answers = Answers(problem(429, "slow down", **{"Retry-After": "10"}))

        with pytest.raises(Denied) as caught:
            account(answers).create(a_request())

        assert caught.value.reason is DenialReason.QUOTA
        assert caught.value.may_pass
        assert caught.value.retry_after == timedelta(seconds=10)
        assert caught.value.request_id == "req-7"
        assert answers.sent == ["POST /v2/pods"]

    @pytest.mark.parametrize(
        ("headers", "wanted"),
        [
            ({"Retry-After": "17"}, 17),
            ({"Retry-After": "Thu, 03 Dec 2026 09:30:20 GMT", "Date": "Thu, 03 Dec 2026 09:30:00 GMT"}, 20),
            ({"Retry-After": "Thu, 03 Dec 2020 09:30:20 GMT", "Date": "Thu, 03 Dec 2026 09:30:00 GMT"}, 0),
            ({"Retry-After": "Thu, 03 Dec 2099 09:30:20 GMT", "Date": "Thu, 03 Dec 2026 09:30:00 GMT"}, 3600),
            ({"Retry-After": "Thu, 03 Dec 2026 09:30:20 GMT"}, None),
            ({"Retry-After": "soon"}, None),
        ],
    )
    def test_the_pause_is_told_in_seconds_or_by_the_clock(self, headers: dict[str, str], wanted: int | None) -> None:
        with pytest.raises(Denied) as caught:
            account(Answers(problem(429, "slow down", **headers))).create(a_request())

        told = caught.value.retry_after
        assert (None if told is None else told.total_seconds()) == wanted

    @pytest.mark.parametrize(("status", "words"), [(401, "does not accept"), (403, "may not start a Pod")])
    def test_a_key_that_may_not_is_told_apart_from_a_refusal(self, status: int, words: str) -> None:
        with pytest.raises(AuthFailed, match=words):
            account(Answers(problem(status, "no"))).create(a_request())

    @pytest.mark.parametrize("word", ["'entrypoint', 'cmd'", "'cmd'", "'entrypoint'"])
    def test_an_account_that_knows_no_exec_form_gets_the_same_command_as_args(self, word: str) -> None:
        refusal = problem(422, "invalid", [f"$: additional properties {word} not allowed"])
        answers = Answers(refusal, httpx.Response(201, json=pod()))

        account(answers).create(a_request())

        first, second = answers.body(0), answers.body(1)
        assert json.loads(second.pop("args")) == {"entrypoint": first.pop("entrypoint"), "cmd": first.pop("cmd")}
        assert second == first

    @pytest.mark.parametrize(
        "error", ["$.entrypoint: must be an array", "$.cmd[3]: is too long", "$.entrypoint: must not be empty"]
    )
    def test_another_rule_about_the_command_is_no_reason_to_ask_again(self, error: str) -> None:
        answers = Answers(problem(422, "Request validation failed.", [error]))

        with pytest.raises(Denied, match=r"must|too long"):
            account(answers).create(a_request())

        assert len(answers.requests) == 1

    @pytest.mark.parametrize("told", ["", "a/../b", "pod a", 7, None])
    def test_a_pod_under_an_id_that_is_none_is_looked_for(self, told: object) -> None:
        with pytest.raises(Unknown, match="not under which id"):
            account(Answers(httpx.Response(201, json=pod(id=told)))).create(a_request())

    def test_the_older_form_refused_as_well_is_the_end(self) -> None:
        refusal = problem(422, "invalid", ["$: additional properties 'cmd' not allowed"])
        answers = Answers(refusal)

        with pytest.raises(Denied):
            account(answers).create(a_request())

        assert len(answers.requests) == 2

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"image": "registry.example.org/trainer:latest"}, "pinned by digest"),
            ({"volume_id": None}, "volume's id"),
            ({"data_center": None}, "data center"),
            ({"environment": {f"V{i}": "x" for i in range(60)}}, "at most 50 variables"),
            ({"environment": {"BIG": "x" * 110_000}}, "larger than RunPod takes"),
        ],
    )
    def test_a_request_that_breaks_a_known_rule_is_never_sent(self, changes: dict[str, Any], words: str) -> None:
        answers = Answers(httpx.Response(201, json=pod()))

        with pytest.raises(Denied, match=words):
            account(answers).create(a_request(**changes))

        assert answers.requests == []


class TestReleasing:
    def test_every_pod_of_the_name_goes_and_a_hidden_one_that_we_know(self) -> None:
        listed = pods(pod(), pod(id="pod_b"), pod(id="pod_c", env={}), pod(id="pod_d", name="tune-b"))
        answers = Answers(lambda request: listed if request.method == "GET" else httpx.Response(204))

        account(answers).release("tune-a", "", known=["pod_hidden", "pod_a"])

        deletes = [f"DELETE /v2/pods/{id}" for id in ("pod_hidden", "pod_a", "pod_b")]
        assert answers.sent == [*deletes[:2], "GET /v2/pods", deletes[2]]

    def test_known_pods_are_deleted_while_the_list_fails(self) -> None:
        answers = Answers(httpx.Response(204), httpx.Response(204), problem(500, "no list"))

        with pytest.raises(Transient, match="list Pods"):
            account(answers).release("tune-a", "", known=["pod_a", "pod_b"])

        assert answers.sent == ["DELETE /v2/pods/pod_a", "DELETE /v2/pods/pod_b", "GET /v2/pods"]

    @pytest.mark.parametrize("known", [["pod_a", "pod_b"], []])
    def test_a_refused_delete_spares_no_twin(self, known: list[str]) -> None:
        def refuse_the_first(request: httpx.Request) -> httpx.Response:
            if request.method == "GET":
                return pods(pod(), pod(id="pod_b"), pod(id="pod_c"))
            return problem(409, "in a cluster") if request.url.path.endswith("pod_a") else httpx.Response(204)

        answers = Answers(refuse_the_first)
        with pytest.raises(Denied, match="cluster"):
            account(answers).release("tune-a", "", known=known)

        deleted = {line.removeprefix("DELETE /v2/pods/") for line in answers.sent if line.startswith("DELETE")}
        assert deleted == {"pod_a", "pod_b", "pod_c"}

    def test_a_twin_that_cannot_be_stopped_spares_no_other(self) -> None:
        answers = Answers(pods(pod(actions=[]), pod(id="pod_b")), httpx.Response(200, json=pod(status="EXITED")))

        with pytest.raises(Unsupported):
            account(answers).stop("tune-a")

        assert answers.sent[1:] == ["POST /v2/pods/pod_b/action"]

    def test_one_already_gone_is_a_success(self) -> None:
        answers = Answers(problem(404, "pod not found"))

        assert account(answers).terminate("pod_a") is False
        assert answers.sent == ["DELETE /v2/pods/pod_a"]

    @pytest.mark.parametrize("status", [204, 404])
    def test_the_answer_tells_whether_there_was_something_to_delete(self, status: int) -> None:
        answers = Answers(lambda request: pods() if request.method == "GET" else httpx.Response(status))

        assert account(answers).release("tune-a", "", known=["pod_a"]) is (status == 204)

    @pytest.mark.parametrize(
        ("reply", "error", "words"),
        [
            (problem(500, "x"), Transient, "could not delete Pods"),
            (httpx.ReadTimeout("timed out"), Transient, "no whole answer"),
            (problem(401, "x"), AuthFailed, "does not accept"),
            (problem(403, "x"), AuthFailed, "may not delete Pods"),
            (problem(409, "the pod belongs to a cluster"), Denied, "cluster"),
        ],
    )
    def test_a_delete_that_fails_says_so(self, reply: Reply, error: type[ProviderError], words: str) -> None:
        with pytest.raises(error, match=words):
            account(Answers(reply)).terminate("pod_a")

    def test_stopping_where_it_is_allowed(self) -> None:
        answers = Answers(pods(pod()), httpx.Response(200, json=pod(status="EXITED")))

        account(answers).stop("tune-a")

        assert answers.body(1) == {"action": "stop"}

    @pytest.mark.parametrize(
        "replies",
        [
            (pods(pod(actions=["terminate"])),),
            (pods(pod()), problem(409, "network volume")),
            (pods(pod()), problem(400, "no")),
        ],
    )
    def test_a_pod_that_cannot_be_stopped_is_told_to_be_released(self, replies: tuple[Reply, ...]) -> None:
        with pytest.raises(Unsupported, match=r"[Rr]elease it"):
            account(Answers(*replies)).stop("tune-a")
