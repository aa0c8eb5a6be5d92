"""What can be rented: GPU types with their prices, data centers, and how much of each is free right now."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.runpod_emulator.wire import ApiError, Request


@dataclass(frozen=True, slots=True)
class Gpu:
    id: str
    name: str
    memory: int
    """GB."""
    price: str
    """Dollars per hour and GPU in the secure cloud; 0 where only the community has it."""
    pool: str = ""
    capability: str = ""
    """CUDA compute capability."""
    most: int = 8
    """GPUs of one machine."""

    @property
    def rate(self) -> Decimal:
        return Decimal(self.price)


@dataclass(frozen=True, slots=True)
class DataCenter:
    id: str
    name: str
    region: str
    volume_types: tuple[str, ...]
    """Empty where there are no network volumes, and so no S3."""
    cuda_versions: tuple[str, ...] = ("12.4", "12.8", "13.0")


GPUS = (
    Gpu("NVIDIA RTX 2000 Ada Generation", "RTX 2000 Ada", 16, "0.24", "ADA_16", "8.9"),
    Gpu("NVIDIA RTX A5000", "RTX A5000", 24, "0.27", "AMPERE_24", "8.6"),
    Gpu("NVIDIA L4", "L4", 24, "0.39", "ADA_24", "8.9"),
    Gpu("NVIDIA A40", "A40", 48, "0.44", "AMPERE_48", "8.6"),
    Gpu("NVIDIA GeForce RTX 4090", "RTX 4090", 24, "0.69", "ADA_24", "8.9"),
    Gpu("NVIDIA L40S", "L40S", 48, "0.86", "ADA_48_PRO", "8.9"),
    Gpu("NVIDIA GeForce RTX 5090", "RTX 5090", 32, "0.99", "BLACKWELL_32", "12.0"),
    Gpu("NVIDIA A100-SXM4-80GB", "A100 SXM", 80, "1.49", "AMPERE_80", "8.0"),
    Gpu(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb",
        "PRO 6000 MIG 24GB",
        24,
        "0.60",
        "BLACKWELL_24",
        "12.0",
    ),
    Gpu("NVIDIA H100 80GB HBM3", "H100 SXM", 80, "3.29", "HOPPER_80", "9.0"),
    Gpu("NVIDIA H200", "H200 SXM", 141, "4.39", "HOPPER_141", "9.0"),
    Gpu("NVIDIA B200", "B200", 180, "5.89", "BLACKWELL_180", "10.0"),
    # What a list may hold and nobody here can train on.
    Gpu("Tesla V100-SXM2-32GB", "V100 SXM2 32GB", 32, "0.23", "VOLTA_32", "7.0"),
    Gpu("AMD Instinct MI300X OAM", "MI300X", 192, "2.69", "MI300X"),
    Gpu("NVIDIA GH200 480GB", "GH200", 96, "1.99", "GRACE_96", "9.0", most=1),
    Gpu("NVIDIA GeForce RTX 3070", "RTX 3070", 8, "0", "AMPERE_8", "8.6"),
)
DATA_CENTERS = (
    DataCenter("EU-RO-1", "EU Romania 1", "EUROPE", ("STANDARD",)),
    DataCenter("EU-CZ-1", "EU Czechia 1", "EUROPE", ("STANDARD",)),
    DataCenter("US-KS-2", "US Kansas 2", "NORTH_AMERICA", ("STANDARD", "HIGH_PERFORMANCE")),
    DataCenter("US-CA-2", "US California 2", "NORTH_AMERICA", ("STANDARD",), ("12.4",)),
    DataCenter("US-TX-4", "US Texas 4", "NORTH_AMERICA", ()),
)
FREE = 16
"""GPUs of each type that a data center has at first."""


class Catalog:
    """Types, data centers and stock; `stock[dc, gpu]` may be set by a test."""

    def __init__(self, gpus: Sequence[Gpu] = GPUS, data_centers: Sequence[DataCenter] = DATA_CENTERS) -> None:
        self.gpus: dict[str, Gpu] = {gpu.id: gpu for gpu in gpus}
        self.data_centers: dict[str, DataCenter] = {dc.id: dc for dc in data_centers}
        self.stock: dict[tuple[str, str], int] = {
            (dc.id, gpu.id): FREE for dc in data_centers for gpu in gpus if gpu.rate
        }

    def free(self, dc: str, gpu: str) -> int:
        return self.stock.get((dc, gpu), 0)

    def take(self, dc: str, gpu: str, count: int) -> None:
        self.stock[dc, gpu] = self.free(dc, gpu) - count

    def place(self, gpu: Gpu, count: int, wanted: Sequence[str], min_cuda: str | None) -> str | None:
        """A data center among the wanted ones (all, where none is named) that has room; None where none has."""
        for dc in self.data_centers.values():
            is_wanted = not wanted or dc.id in wanted
            if is_wanted and count <= self.free(dc.id, gpu.id) and _is_new_enough(dc, min_cuda):
                return dc.id
        return None

    def gpus_answer(self, request: Request) -> list[dict[str, Any]]:
        expands = _wants_availability(request)
        return [self._gpu(gpu, request, expands=expands) for gpu in self.gpus.values()]

    def gpu_answer(self, request: Request, gpu_id: str) -> dict[str, Any]:
        expands = _wants_availability(request)
        if gpu_id not in self.gpus:
            raise ApiError(404, "gpu type not found")
        return self._gpu(self.gpus[gpu_id], request, expands=expands)

    def data_centers_answer(self, request: Request) -> list[dict[str, Any]]:
        return [self.data_center_answer(request, dc_id) for dc_id in self.data_centers]

    def data_center_answer(self, request: Request, dc_id: str) -> dict[str, Any]:
        expands = request.asked_words("include", {"GPU_AVAILABILITY", "CPU_AVAILABILITY"})
        request.asked_words("globalNetwork", {"true", "false"})
        if dc_id not in self.data_centers:
            raise ApiError(404, "data center not found")
        dc = self.data_centers[dc_id]
        answer: dict[str, Any] = {
            "id": dc.id,
            "name": dc.name,
            "region": dc.region,
            "globalNetwork": False,
            "compliance": [],
            "networkVolumeTypes": list(dc.volume_types),
        }
        if "GPU_AVAILABILITY" in expands:
            answer["gpuAvailability"] = [
                {"id": gpu.id, "name": gpu.name, "availability": level(self.free(dc.id, gpu.id))}
                for gpu in self.gpus.values()
            ]
        return answer

    def _gpu(self, gpu: Gpu, request: Request, *, expands: bool) -> dict[str, Any]:
        is_secure = gpu.rate > 0
        answer: dict[str, Any] = {
            "id": gpu.id,
            "name": gpu.name,
            "pool": gpu.pool or None,
            "memory": gpu.memory,
            "manufacturer": "AMD" if gpu.id.startswith("AMD") else "NVIDIA",
            "secure": is_secure,
            "community": not is_secure,
            "price": {"secure": float(gpu.rate), "community": 0.0 if is_secure else 0.14},
            "maxCount": {"secure": gpu.most if is_secure else 0, "community": 0 if is_secure else 1},
        }
        if expands:
            answer |= self._availability(gpu, _count(request), _min_cuda(request))
        return answer

    def _availability(self, gpu: Gpu, count: int, min_cuda: str | None) -> Mapping[str, Any]:
        fit = [dc for dc in self.data_centers.values() if _is_new_enough(dc, min_cuda)]
        free = {dc.id: self.free(dc.id, gpu.id) // count * count for dc in fit}
        versions = sorted({version for dc in self.data_centers.values() for version in dc.cuda_versions}, key=_number)
        return {
            "availability": level(max(free.values(), default=0)),
            "dataCenters": [{"id": dc.id, "name": dc.name, "availability": level(free[dc.id])} for dc in fit],
            "cudaVersions": [
                {"version": v, "available": any(v in dc.cuda_versions and free.get(dc.id) for dc in fit)}
                for v in versions
            ],
        }


def level(free: int) -> str:
    return "NONE" if free <= 0 else "LOW" if free <= 2 else "MEDIUM" if free <= 7 else "HIGH"


def _wants_availability(request: Request) -> bool:
    include = request.asked_words("include", {"AVAILABILITY"})
    product = request.asked_words("product", {"POD", "CLUSTER", "SERVERLESS"})
    if bool(include) != bool(product):
        raise ApiError(400, "include=AVAILABILITY and product must be given together")
    if not include and any(
        request.asked(name) is not None for name in ("count", "cloud", "minCudaVersion", "cudaVersions")
    ):
        raise ApiError(400, "count, cloud and CUDA filters need include=AVAILABILITY")
    return bool(include)


def _count(request: Request) -> int:
    text = request.asked("count")
    if text is None:
        return 1
    if not text.isdecimal() or int(text) < 1:
        raise ApiError(422, "Request validation failed.", [f"query.count: {text!r} is no whole number from 1"])
    return int(text)


def _min_cuda(request: Request) -> str | None:
    text = request.asked("minCudaVersion")
    if text is not None and not re.fullmatch(CUDA, text):
        raise ApiError(422, "Request validation failed.", [f"query.minCudaVersion: {text!r} is no version like 12.8"])
    return text


def _is_new_enough(dc: DataCenter, min_cuda: str | None) -> bool:
    return min_cuda is None or any(_number(version) >= _number(min_cuda) for version in dc.cuda_versions)


CUDA = re.compile(r"[0-9]+(\.[0-9]+)?")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
