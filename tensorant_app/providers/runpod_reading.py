"""RunPod's objects as ours, read tolerantly: extra fields are ignored, a word that we do not know stays unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tensorant_app.domain.gpus import describe_gpu, label_gpu
from tensorant_app.domain.machines import Presence
from tensorant_app.domain.money import FREE, HourlyRate, Money
from tensorant_app.providers.base import (
    INSTALLATION_VARIABLE,
    BillInPart,
    BillLine,
    Listed,
    NetworkVolume,
    Offer,
    Stock,
)

GIB = 1024**3

_PRESENCE = {
    "PROVISIONING": Presence.PRESENT,
    "STARTING": Presence.PRESENT,
    "RUNNING": Presence.PRESENT,
    "EXITED": Presence.STOPPED,
    # The host could not bring the container up, and never will.
    "ERROR": Presence.ERROR,
    "TERMINATED": Presence.GONE,
}
_STILL = frozenset({"EXITED", "TERMINATED"})


def read_pods(body: Any) -> list[Listed]:
    """Every Pod of one page; an entry without an id is none."""
    return [read_pod(pod) for pod in _objects(body, "pods") if isinstance(pod.get("id"), str)]


def read_pod(pod: Mapping[str, Any]) -> Listed:
    """A Pod that answers with neither cost nor uptime is read as one that does not say, never as a free one."""
    status = _text(pod.get("status")).upper()
    runtime = pod.get("runtime")
    gpu = pod.get("gpu")
    return Listed(
        name=_text(pod.get("name")),
        provider_id=_text(pod.get("id")),
        provider_status=status,
        presence=_PRESENCE.get(status, Presence.UNKNOWN),
        rate=_rate(pod.get("cost"), is_still=status in _STILL),
        installation=_installation(pod),
        created_at=read_time(pod.get("createdAt")),
        started_at=read_time(pod.get("startedAt")),
        uptime_s=_whole(runtime.get("uptime")) if isinstance(runtime, dict) else None,
        gpu_type=_text(gpu.get("id")) if isinstance(gpu, dict) else None,
        gpu_count=_whole(gpu.get("count", 1)) if isinstance(gpu, dict) else None,
        data_center=pod.get("dataCenterId") if isinstance(pod.get("dataCenterId"), str) else None,
        actions=frozenset(_text(action) for action in _list(pod.get("actions"))),
    )


def next_cursor(body: Any) -> str | None:
    """Where the list goes on; some answers wrap it in `pagination`."""
    if not isinstance(body, dict):
        return None
    inner = body.get("pagination")
    cursor = body.get("nextCursor") or (inner.get("nextCursor") if isinstance(inner, dict) else None)
    return cursor if isinstance(cursor, str) and cursor else None


def says_more(body: Any) -> bool:
    """Whether the list itself says that this page is not the last."""
    inner = body.get("pagination") if isinstance(body, dict) else None
    told = [part.get(word) for part in (body, inner) if isinstance(part, dict) for word in ("hasNextPage", "hasMore")]
    return True in told


def read_offers(body: Any) -> list[Offer]:
    """What the secure cloud has a price for, the cheapest first."""
    priced = [offer for offer in map(_read_offer, _objects(body, "gpus")) if offer is not None]
    return sorted(priced, key=lambda offer: (offer.rate, offer.gpu_type))


def read_volumes(body: Any) -> list[NetworkVolume]:
    return [
        NetworkVolume(
            _text(volume.get("id")),
            _text(volume.get("name")),
            _whole(volume.get("size")) or 0,
            _text(volume.get("dataCenter") or volume.get("dataCenterId")),
            _text(volume.get("type")),
        )
        for volume in _objects(body, "networkVolumes")
    ]


def read_bill(body: Any, key: str, owner: str, bucket: timedelta) -> list[BillLine]:
    """Lines of `owner` alone, oldest first; a record without an end covers one bucket. Raises `BillInPart`."""
    own = [record for record in _objects(body, "records") if record.get(key) == owner]
    read = [_read_line(record, bucket) for record in own]
    lines = sorted((line for line in read if line is not None), key=lambda line: (line.start, line.end))
    if None in read:
        raise BillInPart(f"RunPod sent {read.count(None)} billing records without a time or an amount.", lines)
    return lines


def read_time(value: Any) -> datetime | None:
    """An instant in UTC; a time without a zone is taken as UTC."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def _read_line(record: Mapping[str, Any], bucket: timedelta) -> BillLine | None:
    start, amount = read_time(record.get("startTime")), _number(record.get("totalAmount"))
    if start is None or amount is None:
        return None
    return BillLine(start, read_time(record.get("endTime")) or start + bucket, Money.dollars(amount))


def _read_offer(gpu: Mapping[str, Any]) -> Offer | None:
    """None for what is only in the community cloud: it cannot mount a network volume."""
    price = gpu.get("price")
    dollars = _number(price.get("secure") if isinstance(price, dict) else price)
    if not isinstance(gpu.get("id"), str) or gpu.get("secure") is False or not dollars or dollars < 0:
        return None
    facts = describe_gpu(gpu["id"], _text(gpu.get("manufacturer")))
    cuda = [entry for entry in _objects(gpu, "cudaVersions") if entry.get("available") is not False]
    return Offer(
        gpu_type=gpu["id"],
        label=label_gpu(_text(gpu.get("name")) or gpu["id"]),
        memory_bytes=(_whole(gpu.get("memory")) or 0) * GIB,
        rate=HourlyRate(Money.dollars(dollars)),
        max_count=_most(gpu.get("maxCount")),
        stock=_stock(gpu.get("availability")),
        data_centers={_text(dc.get("id")): _stock(dc.get("availability")) for dc in _objects(gpu, "dataCenters")},
        reason=None if facts.is_nvidia else "It is not made by NVIDIA; the trainer needs CUDA.",
        arch=facts.arch,
        is_nvidia=facts.is_nvidia,
        capability=facts.capability,
        cuda_versions=[_text(entry.get("version")) for entry in cuda],
    )


def _installation(pod: Mapping[str, Any]) -> str | None:
    """None where the answer tells no environment; empty where it tells one that does not name an installation."""
    environment = pod.get("env")
    return _text(environment.get(INSTALLATION_VARIABLE)) if isinstance(environment, dict) else None


def _rate(cost: Any, *, is_still: bool) -> HourlyRate | None:
    if is_still:
        return FREE
    dollars = _number(cost)
    return HourlyRate(Money.dollars(dollars)) if dollars and dollars > 0 else None


def _stock(level: Any) -> Stock:
    try:
        return Stock(_text(level).lower())
    except ValueError:
        return Stock.UNKNOWN


def _most(value: Any) -> int:
    """GPUs in one machine; the catalog tells one number for each cloud. Not told: the eight of the largest hosts."""
    told = value.get("secure") if isinstance(value, dict) else value
    most = _whole(told)
    return 8 if most is None else most


def _objects(body: Any, key: str) -> Iterator[dict[str, Any]]:
    if isinstance(body, dict):
        yield from (entry for entry in _list(body.get(key)) if isinstance(entry, dict))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> Decimal | None:
    """A float as the decimal that was printed; NaN, infinity and anything else are no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
