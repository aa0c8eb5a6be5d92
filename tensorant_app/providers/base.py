"""What every provider of machines, and every store of files, can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol

from tensorant_app.domain.errors import Transient
from tensorant_app.domain.machines import Presence, ProofRules, Sighting
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.offers import MIN_CUDA
from tensorant_app.domain.offers import Offer as Offer
from tensorant_app.domain.offers import Stock as Stock

INSTALLATION_VARIABLE = "TENSORANT_INSTALLATION"
MACHINE_VARIABLE = "TENSORANT_MACHINE"
"""A machine is ours only where its environment names this installation, and its own name, exactly."""

STORAGE_VARIABLE = "TENSORANT_STORAGE"
"""Tells the machine's boot which `Storage` it has."""
GPU_COUNT_VARIABLE = "TENSORANT_GPU_COUNT"
"""Tells it how many GPUs must be there."""


class Storage(StrEnum):
    """Where a machine keeps its files."""

    VOLUME = "volume"
    """On the exchange with the console; outlives the machine."""
    POD = "pod"
    """On the machine's own disk; a person carries `adapter.zip` over."""


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """One machine, asked for once. This computer ignores what it has no use for."""

    name: str
    gpu_type: str
    command: Sequence[str]
    """Arguments of the trainer: the subcommand, then the volume and the key of its job file."""
    outputs: str
    """Key of the attempt's output folder on the volume."""
    environment: Mapping[str, str]
    """Readable by everybody with access to the account: never a secret."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Variable → name of the account's own secret, which the provider fills in on the machine."""
    gpu_count: int = 1
    image: str = ""
    """Pinned by digest."""
    data_center: str | None = None
    volume_id: str | None = None
    disk_gb: int = 60
    min_cuda: str = MIN_CUDA
    """The image's own CUDA: an older driver starts the container for ever and bills it."""
    storage: Storage = Storage.VOLUME


@dataclass(frozen=True, slots=True)
class Rented:
    """The provider's answer to a create call."""

    provider_id: str
    provider_status: str
    rate: HourlyRate | None = None
    """What the whole machine really costs; None where the answer does not say."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One machine of the account, as its list shows it now."""

    name: str
    provider_id: str
    provider_status: str
    """The provider's own word."""
    presence: Presence
    rate: HourlyRate | None = None
    """Of the whole machine now; zero where it is stopped."""
    installation: str | None = None
    """Whose machine its environment says it is; empty where it names nobody, None where the list tells no environment."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    uptime_s: int | None = None
    """Since the container began; None while it is not up. It goes backwards when the container starts again."""
    gpu_type: str | None = None
    gpu_count: int | None = None
    """What it really got; zero where the host had none free."""
    data_center: str | None = None
    actions: frozenset[str] = frozenset()
    """What may be asked of it now."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a machine's log."""

    at: datetime | None
    source: str
    """`container` or `system`: the machine's work, or the provider bringing it up."""
    text: str
    cursor: str
    """Hand it back to read on behind this line."""


@dataclass(frozen=True, slots=True)
class BillLine:
    """What the provider says it billed for one span of time; it may say otherwise later."""

    start: datetime
    end: datetime
    """Not included."""
    amount: Money


class BillInPart(Transient):
    """Some records of a bill could not be read; `lines` are those that could."""

    def __init__(self, message: str, lines: Sequence[BillLine]) -> None:
        super().__init__(message)
        self.lines = lines


@dataclass(frozen=True, slots=True)
class NetworkVolume:
    """A disk of the account that outlives its machines, and is billed whether it is used or not."""

    id: str
    name: str
    size_gb: int
    data_center: str
    type: str
    """The provider's own word, such as STANDARD."""


class Provider(Protocol):
    """Machines of one account. Every call may raise `ProviderError` and answers or gives up within about 10 seconds."""

    rules: ProofRules
    free: bool
    """Nothing it does is billed."""

    @property
    def pause(self) -> timedelta:
        """How long the last answers ask to leave the provider alone; zero in ordinary times."""
        ...

    def check(self) -> Sequence[str]:
        """What is wrong with the account or the key, as sentences; `Transient` where nobody could be asked."""
        ...

    def volumes(self) -> Sequence[NetworkVolume]:
        """Every network volume of the account."""
        ...

    def offers(self, count: int = 1) -> Sequence[Offer]:
        """Every machine type, with its stock for `count` GPUs in one machine."""
        ...

    def create(self, request: MachineRequest) -> Rented:
        """Ask once; never retries after a byte was sent. `Denied` and `AuthFailed` are definite, `Unknown` may have made it."""
        ...

    def listing(self) -> Sequence[Listed]:
        """Every machine of the account, whoever made it; one call for all."""
        ...

    def find(self, provider_id: str) -> Listed | None:
        """One machine by the provider's id, which may know of it when the list does not; None: not there, as seen now."""
        ...

    def look(self, name: str, outputs: str, at: datetime) -> Sighting:
        """Whatever bears this name now."""
        ...

    def stop(self, name: str) -> None:
        """Keep the disk, end the computing. `Unsupported` where releasing is the only way."""
        ...

    def release(self, name: str, outputs: str, known: Sequence[str] = ()) -> bool:
        """Delete every machine of this name and the `known` ids, listed or not. One already gone is a success, and no proof.

        True where the provider knew of one, and took its deletion.
        """
        ...

    def terminate(self, provider_id: str) -> bool:
        """Delete this one machine, whatever its name; True where the provider knew of it. One already gone is no proof."""
        ...

    def logs(self, provider_id: str, after: str | None = None) -> Iterator[LogLine]:
        """Lines behind the cursor `after`, oldest first, for as long as the provider sends them."""
        ...

    def bill(self, provider_id: str, since: datetime, until: datetime) -> Sequence[BillLine]:
        """Hours that touch the span, oldest first; empty where nothing is known yet. `BillInPart` where some are unreadable."""
        ...


def sight(machines: Sequence[Listed], name: str, installation: str, at: datetime) -> Sighting:
    """One look at a name in an account's list.

    A machine that names another installation, or none, is not ours. Where the list tells no environment at all the
    name decides: it holds an id that nobody else makes.
    """
    return sight_own([m for m in machines if m.name == name and m.installation in {installation, None}], at)


def sight_own(ours: Sequence[Listed], at: datetime) -> Sighting:
    """The same of machines that are known to be ours."""
    alive = [machine for machine in ours if machine.presence is not Presence.GONE]
    shown = min(alive or ours, key=lambda machine: _ORDER.index(machine.presence), default=None)
    if shown is None:
        return Sighting(at, Presence.ABSENT)
    ids = tuple(machine.provider_id for machine in alive or ours)
    uptime = float(shown.uptime_s) if shown.uptime_s is not None else None
    twins = rate_of([machine for machine in alive if machine is not shown])
    return Sighting(at, shown.presence, ids, shown.provider_status, shown.rate, twins, uptime)


def rate_of(machines: Sequence[Listed]) -> HourlyRate | None:
    """Of several together, as far as they say; None where none does."""
    rates = [machine.rate.per_hour for machine in machines if machine.rate]
    return HourlyRate(Money.total(rates)) if rates else None


_ORDER = (
    Presence.PRESENT,
    Presence.UNKNOWN,
    Presence.EXITED,
    Presence.STOPPED,
    Presence.ERROR,
    Presence.GONE,
    Presence.ABSENT,
)
"""Of several machines of one name, the one that costs most is shown."""


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
