"""What is known of a GPU type by its name alone: whether it can train, and why not."""

from __future__ import annotations

import re
from dataclasses import dataclass

OLDEST_CAPABILITY = "8.0"
"""Ampere: the first with bfloat16, which the trainer needs."""

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
    """`reason` says, as a sentence, why it cannot train; None where it can, as far as its name tells."""

    capability: str
    """CUDA compute capability; empty where the name is not known."""
    arch: str
    """Of the host's processor."""
    is_slice: bool
    """A part of one GPU, with its own memory."""
    reason: str | None


def describe_gpu(gpu_type: str, manufacturer: str = "") -> GpuFacts:
    """A new NVIDIA type that the table does not know is taken to be newer than what it knows."""
    capability = next((found for pattern, found in _PATTERNS if pattern.search(gpu_type)), "")
    arch = ARM64 if _ARM_HOSTS.search(gpu_type) else AMD64
    return GpuFacts(capability, arch, bool(_SLICE.search(gpu_type)), _why_not(gpu_type, manufacturer, capability, arch))


def label_gpu(name: str) -> str:
    """The name for people; a slice says that it is one."""
    if not (found := _SLICE.search(name)) and "MIG" not in name.split():
        return name
    return f"{name} (part of one GPU)" if found is None else f"{_SLICE.sub('', name).strip()}, {found[2].upper()} part"


def is_version_at_least(version: str, least: str) -> bool:
    """Versions compared number by number: 12.11 is above 12.2."""
    return _numbers(version) >= _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _why_not(gpu_type: str, manufacturer: str, capability: str, arch: str) -> str | None:
    is_other_maker = manufacturer != "" and manufacturer.upper() != "NVIDIA"
    if is_other_maker or _NOT_NVIDIA.search(gpu_type):
        return "It is not made by NVIDIA; the trainer needs CUDA."
    if arch == ARM64:
        return "Its host has an arm64 processor; the trainer's image is built for x86-64."
    if capability and not is_version_at_least(capability, OLDEST_CAPABILITY):
        return (
            f"It is too old: its compute capability is {capability}, and training needs {OLDEST_CAPABILITY} "
            "(NVIDIA Ampere) or newer."
        )
    return None
