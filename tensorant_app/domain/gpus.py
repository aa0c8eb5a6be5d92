"""What is known of a GPU type by its name alone; whether it can train is judged in `offers`."""

from __future__ import annotations

import re
from dataclasses import dataclass

AMD64 = "amd64"
ARM64 = "arm64"

_ARM_HOSTS = re.compile(r"\b(GH200|GB200|GB300)\b|Grace", re.IGNORECASE)
_NOT_NVIDIA = re.compile(r"\b(AMD|Instinct|Radeon|Intel|Gaudi)\b", re.IGNORECASE)
_SLICE = re.compile(r"\bMIG\s+(\d+g)\.(\d+gb)\b", re.IGNORECASE)

_CAPABILITIES = (
    (r"\bK80\b", "3.7"),
    (r"\b(P100|P40|P4|GTX 10\d\d|TITAN X)\b", "6.1"),
    (r"\b(V100|TITAN V)\b", "7.0"),
    (r"\b(T4|RTX 20[678]0|GTX 16\d\d|Quadro RTX|TITAN RTX|RTX 8000)\b", "7.5"),
    (r"\b(A100|A30)\b", "8.0"),
    (r"\b(RTX 30\d\d|A40|A10|A10G|A16|A2)\b|\bRTX A\d{4}\b", "8.6"),
    (r"\b(RTX 40\d\d|L4|L40|L40S)\b|\bAda\b", "8.9"),
    (r"\b(H100|H200|H20|GH200)\b", "9.0"),
    (r"\b(B200|GB200)\b", "10.0"),
    (r"\b(B300|GB300)\b", "10.3"),
    (r"\b(RTX 50\d\d)\b|\bRTX PRO \d{4}\b", "12.0"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), capability) for pattern, capability in _CAPABILITIES)


@dataclass(frozen=True, slots=True)
class GpuFacts:
    capability: str
    """CUDA compute capability; empty where the name is not known."""
    arch: str
    """Of the host's processor."""
    is_nvidia: bool


def describe_gpu(gpu_type: str, manufacturer: str = "") -> GpuFacts:
    """A new NVIDIA type that the table does not know keeps an empty capability: it is newer than what the table knows."""
    capability = next((found for pattern, found in _PATTERNS if pattern.search(gpu_type)), "")
    arch = ARM64 if _ARM_HOSTS.search(gpu_type) else AMD64
    is_others = manufacturer not in {"", "NVIDIA"} or _NOT_NVIDIA.search(gpu_type) is not None
    return GpuFacts(capability, arch, not is_others)


def label_gpu(name: str) -> str:
    """The name for people; a slice says that it is one."""
    if not (found := _SLICE.search(name)) and "MIG" not in name.split():
        return name
    return f"{name} (part of one GPU)" if found is None else f"{_SLICE.sub('', name).strip()}, {found[2].upper()} part"
