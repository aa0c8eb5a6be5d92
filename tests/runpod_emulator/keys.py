"""API keys: what each may do."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum


class Access(StrEnum):
    ALL = "all"
    READ = "read"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Key:
    token: str
    access: Access = Access.ALL
    areas: Set[str] | None = None
    """Only these, such as `pods` or `billing`; None for all."""
    pod_id: str | None = None
    """The key of a Pod, good for that Pod alone."""

    def may(self, operation: str, *, writes: bool, pod_id: str | None) -> bool:
        area = operation.partition(".")[0]
        if self.pod_id is not None:
            return area == "pods" and pod_id == self.pod_id
        if self.access is Access.NONE or (self.areas is not None and area not in self.areas):
            return False
        return self.access is Access.ALL or not writes
