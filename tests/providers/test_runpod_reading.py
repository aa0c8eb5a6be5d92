"""What RunPod's catalog, bills and account mean to us."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tensorant_app.domain.errors import Denied, Transient
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.offers import Problem, Wanted, judge
from tensorant_app.providers.base import BillInPart, BillLine, NetworkVolume
from tests.providers.answers import Answers, account, problem

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


class TestOffers:
    def offers(self, *gpus: dict[str, Any], count: int = 1) -> Any:
        self.answers = Answers(httpx.Response(200, json={"gpus": list(gpus)}))
        return account(self.answers).offers(count)

    def gpu(self, **fields: Any) -> dict[str, Any]:
        made: dict[str, Any] = {
            "id": "NVIDIA L40S",
            "name": "L40S",
            "manufacturer": "NVIDIA",
            "memory": 48,
            "secure": True,
            "price": {"secure": 0.86, "community": 0.79},
            "maxCount": {"secure": 8, "community": 4},
            "availability": "HIGH",
            "dataCenters": [{"id": "EU-RO-1", "availability": "LOW"}, {"id": "US-KS-2", "availability": "HIGH"}],
            "cudaVersions": [{"version": "12.8", "available": True}, {"version": "13.0", "available": False}],
        }
        return made | fields

    def test_an_offer_tells_price_memory_and_stock_of_each_data_center(self) -> None:
        (offer,) = self.offers(self.gpu(), count=2)

        assert (offer.gpu_type, offer.label, offer.memory_bytes) == ("NVIDIA L40S", "L40S", 48 * 1024**3)
        assert (offer.rate, offer.reason, offer.max_count) == (HourlyRate.dollars("0.86"), None, 8)
        assert dict(offer.data_centers) == {"EU-RO-1": "low", "US-KS-2": "high"}
        assert (offer.arch, offer.capability, list(offer.cuda_versions)) == ("amd64", "8.9", ["12.8"])
        assert dict(self.answers.requests[0].url.params) == {
            "include": "AVAILABILITY",
            "product": "POD",
            "cloud": "SECURE",
            "count": "2",
            "minCudaVersion": "12.8",
        }

    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({"availability": "NONE", "dataCenters": None}, Problem.NO_STOCK),
            ({"dataCenters": [{"id": "US-KS-2", "availability": "HIGH"}]}, Problem.NO_STOCK),
            ({"maxCount": {"secure": 1, "community": 8}}, Problem.TOO_MANY),
            ({"id": "NVIDIA GH200 480GB"}, Problem.ARM64),
            ({"id": "AMD Instinct MI300X OAM", "manufacturer": "AMD"}, Problem.AMD),
            ({"id": "Tesla V100-SXM2-16GB"}, Problem.TOO_OLD),
            ({"cudaVersions": [{"version": "12.4", "available": True}]}, Problem.OLD_DRIVERS),
        ],
    )
    def test_what_cannot_be_chosen_is_judged_by_what_was_read(self, fields: dict[str, Any], problem: Problem) -> None:
        wanted = Wanted(2, HourlyRate.dollars(5), None, "EU-RO-1")

        (offer,) = self.offers(self.gpu(**fields), count=2)

        assert judge(offer, wanted, {}).problem is problem
        assert judge(self.offers(self.gpu())[0], wanted, {}).problem is None

    def test_another_maker_is_refused_whatever_it_is_called(self) -> None:
        (offer,) = self.offers(self.gpu(id="MI300X", manufacturer="AMD"))

        assert offer.reason == "It is not made by NVIDIA; the trainer needs CUDA."

    @pytest.mark.parametrize("fields", [{"secure": False}, {"price": {"secure": 0, "community": 0.2}}, {"price": None}])
    def test_what_has_no_price_in_the_secure_cloud_is_not_offered(self, fields: dict[str, Any]) -> None:
        assert self.offers(self.gpu(**fields)) == []

    def test_the_cheapest_comes_first_and_a_part_of_a_gpu_says_so(self) -> None:
        found = self.offers(
            self.gpu(id="NVIDIA H100 80GB HBM3", price=3.29),
            self.gpu(id="NVIDIA L4", price=0.39, availability="NONE"),
            self.gpu(),
            self.gpu(
                id="NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", name="PRO 6000 MIG 1g.24gb", price=0.5
            ),
        )

        assert [offer.rate for offer in found] == [
            HourlyRate.dollars(price) for price in ("0.39", "0.5", "0.86", "3.29")
        ]
        assert found[1].label == "PRO 6000, 24GB part"


class TestBilling:
    def test_only_the_pods_own_hours_are_read_and_both_ends_are_sent_in_utc(self) -> None:
        records = [
            {"podId": "pod_e1", "startTime": "2026-10-25T00:00:00Z", "totalAmount": 1.2027},
            {"podId": "pod_e1", "startTime": "2026-10-24T23:00:00Z", "totalAmount": 0.451},
            {"podId": "pod_e9", "startTime": "2026-10-25T00:00:00Z", "totalAmount": 1.2942},
        ]
        answers = Answers(httpx.Response(200, json={"records": records, "metadata": {}}))
        since = datetime.fromisoformat("2026-10-25T01:30:00+02:00")

        lines = account(answers).bill("pod_e1", since, datetime(2026, 10, 25, 1, 20, tzinfo=UTC))

        assert [line.amount for line in lines] == [Money.dollars("0.451"), Money.dollars("1.2027")]
        assert Money.total(line.amount for line in lines) == Money.dollars("1.6537")
        assert lines[0].end == datetime(2026, 10, 25, tzinfo=UTC)
        assert dict(answers.requests[0].url.params) == {
            "podId": "pod_e1",
            "startTime": "2026-10-24T23:00:00Z",
            "endTime": "2026-10-25T02:00:00Z",
            "bucketSize": "hour",
        }

    def test_nothing_billed_yet_is_no_line(self) -> None:
        answers = Answers(httpx.Response(200, json={"records": []}))

        assert account(answers).bill("pod_a", NOON, NOON) == []
        assert answers.requests[0].url.params["endTime"] == "2026-12-01T13:00:00Z"

    @pytest.mark.parametrize("amount", ["NaN", "Infinity", '"1.0"', "null"])
    def test_an_amount_that_is_none_is_no_bill(self, amount: str) -> None:
        text = f'{{"records": [{{"podId": "p", "startTime": "2026-12-01T12:00:00Z", "totalAmount": {amount}}}]}}'

        with pytest.raises(Transient, match="without a time or an amount"):
            account(Answers(httpx.Response(200, text=text))).bill("p", NOON, NOON)

    @pytest.mark.parametrize("broken", [{"totalAmount": None}, {"startTime": "yesterday"}, {"startTime": 7}])
    def test_what_can_be_read_of_a_bill_is_told_with_what_could_not(self, broken: dict[str, Any]) -> None:
        good = {"podId": "p", "startTime": "2026-12-01T12:00:00Z", "totalAmount": 0.4}
        answers = Answers(httpx.Response(200, json={"records": [{**good, **broken}, good]}))

        with pytest.raises(BillInPart, match="1 billing record") as caught:
            account(answers).bill("p", NOON, NOON)

        assert [line.amount for line in caught.value.lines] == [Money.dollars("0.4")]

    def test_a_volumes_days(self) -> None:
        record = {"networkVolumeId": "v", "startTime": "2026-12-01T00:00:00Z", "endTime": None, "totalAmount": 0.23}
        answers = Answers(httpx.Response(200, json={"records": [record]}))

        lines = account(answers).bill_volume("v", NOON, NOON)

        day = datetime(2026, 12, 1, tzinfo=UTC)
        assert lines == [BillLine(day, day + timedelta(days=1), Money.dollars("0.23"))]
        assert answers.requests[0].url.params["startTime"] == "2026-12-01T00:00:00Z"


class TestAccounts:
    def test_a_good_key_has_no_trouble(self) -> None:
        answers = Answers(httpx.Response(200, json={}))

        assert account(answers).check() == []
        assert answers.sent == ["GET /v2/pods", "GET /v2/network-volumes", "GET /v2/billing/pods"]

    def test_a_dead_key_is_said_once_and_a_restricted_one_thing_by_thing(self) -> None:
        assert account(Answers(problem(401, "no"))).check() == [
            "RunPod does not accept the API key. Save a new one under Connections."
        ]
        assert len(account(Answers(problem(403, "no"))).check()) == 3

    def test_an_account_that_cannot_be_reached_is_no_bad_key(self) -> None:
        answers = Answers(httpx.ConnectTimeout("timed out"))

        with pytest.raises(Transient, match="Nothing was sent"):
            account(answers).check()
        assert len(answers.requests) == 1

    def test_volumes(self) -> None:
        listed = {
            "networkVolumes": [{"id": "v1", "name": "mine", "size": 50, "dataCenter": "EU-RO-1", "type": "STANDARD"}]
        }

        assert account(Answers(httpx.Response(200, json=listed))).volumes() == [
            NetworkVolume("v1", "mine", 50, "EU-RO-1", "STANDARD")
        ]

    def test_a_secret_is_kept_or_replaced_and_never_read(self) -> None:
        listed = httpx.Response(200, json={"secrets": [{"id": "s1", "name": "other"}, {"id": "s2", "name": "hf"}]})
        answers = Answers(problem(409, "name is taken"), listed, httpx.Response(200, json={"id": "s2"}))

        account(answers).put_secret("hf", "hf_token")

        assert answers.sent == ["POST /v2/account/secrets", "GET /v2/account/secrets", "PATCH /v2/account/secrets/s2"]
        assert answers.body(2) == {"value": "hf_token"}

    def test_a_secret_that_is_refused_says_why(self) -> None:
        answers = Answers(problem(400, "names must not begin with RUNPOD"), httpx.Response(200, json={"secrets": []}))

        with pytest.raises(Denied, match="must not begin"):
            account(answers).put_secret("RUNPOD_x", "v")
