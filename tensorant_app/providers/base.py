"""What every provider of machines, and every store of files, can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from tensorant_app.domain.machines import ProofRules, Sighting
from tensorant_app.domain.money import HourlyRate


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine type that could be rented."""

    gpu_type: str
    memory_bytes: int
    rate: HourlyRate
    reason: str | None
    """Why it cannot be chosen; None where it can."""


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """One machine, asked for once."""

    name: str
    gpu_type: str
    command: Sequence[str]
    """Arguments of the trainer: the subcommand, then the volume and the key of its job file."""
    outputs: str
    """Key of the attempt's output folder on the volume."""
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rented:
    """The provider's answer to a create call."""

    provider_id: str
    provider_status: str


class Provider(Protocol):
    """Machines of one account. Every call may raise `ProviderError`; a lost answer raises `Unknown`."""

    rules: ProofRules
    free: bool
    """Nothing it does is billed."""

    def offers(self) -> Sequence[Offer]: ...

    def create(self, request: MachineRequest) -> Rented:
        """Ask once. Never retries by itself."""
        ...

    def look(self, name: str, outputs: str, at: datetime) -> Sighting:
        """Whatever bears this name now."""
        ...

    def release(self, name: str, outputs: str) -> None:
        """Delete every machine of this name. One already gone is a success."""
        ...


class FileStore(Protocol):
    """Files by key, in a folder or in a bucket."""

    def put(self, key: str, source: Path | bytes) -> None: ...

    def open(self, key: str, start: int = 0, length: int | None = None) -> AbstractContextManager[BinaryIO]: ...

    def fetch(self, key: str) -> Path:
        """A local path with the file's (or the folder's) content, for reading only."""
        ...

    def size(self, key: str) -> int | None:
        """Bytes, or None where there is no such file."""
        ...

    def names(self, prefix: str) -> Iterator[str]: ...

    def delete(self, key: str) -> None: ...
