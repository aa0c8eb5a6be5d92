"""Where the next machine of a run or an evaluation is asked for: provider, type, price and volume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.runs import Run
from tensorant_app.domain.connections import LOCAL, ConnectionKind
from tensorant_app.domain.errors import Refused
from tensorant_app.domain.machines import Use
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.placement import Placement
from tensorant_app.providers.base import FileStore, Offer, Provider, Storage
from tensorant_app.services import offers
from tensorant_app.services.bases import base_key, find_base, stage_base
from tensorant_app.services.connections import find_connection, provider_for, volume_for
from tensorant_app.services.machine_views import machine_of
from tensorant_app.settings import get_settings
from trainer.contract import Base


@dataclass(frozen=True, slots=True)
class Doors:
    """A provider and the exchange with its machines, built from the organization's connections."""

    name: str
    provider: Provider
    volume: FileStore
    connection_id: UUID | None = None
    data_center: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    known_offers: Sequence[Offer] = ()
    storage: Storage = Storage.VOLUME


@dataclass(frozen=True, slots=True)
class Place:
    """What a create call will say beside its name and command."""

    provider: str
    gpu_type: str
    rate: HourlyRate | None
    """Of the whole machine, as offered."""
    connection_id: UUID | None = None
    data_center: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def open_doors(session: Session, organization_id: UUID, placement: Placement) -> Doors:
    """`AuthFailed` where the account that the draft names is not connected. Without a volume its disk is the Pod's own."""
    name = placement.provider or LOCAL
    provider = provider_for(session, organization_id, name)
    if name == LOCAL:
        return Doors(name, provider, volume_for(session, organization_id))
    compute = find_connection(session, organization_id, ConnectionKind.RUNPOD_COMPUTE)
    connected = find_connection(session, organization_id, ConnectionKind.RUNPOD_STORAGE)
    assert compute is not None
    storage = Storage.POD if connected is None else Storage.VOLUME
    options = {
        "image": get_settings().trainer_image or "",
        "volume_id": connected.shown["volume_id"] if connected else None,
        "disk_gb": placement.disk_gb,
        "storage": storage.value,
    }
    catalog = offers.catalog_of(session, organization_id, placement.gpu_count)
    return Doors(
        name,
        provider,
        volume_for(session, organization_id, name, storage),
        compute.id,
        connected.shown["data_center"] if connected else None,
        options,
        catalog.offers if catalog else (),
        storage,
    )


def require_volume(doors: Doors) -> None:
    """`Refused` for work that a machine with a disk of its own cannot do: all that it says are lines of a log."""
    if doors.storage is Storage.POD:
        raise Refused(
            "An evaluation on RunPod needs a network volume.",
            ["The owner connects one under Connections; or evaluate on this computer."],
        )


def volume_of_run(session: Session, run_id: UUID) -> FileStore:
    """Where its files lie."""
    run = session.get_one(Run, run_id)
    machine = machine_of(session, Use.RUN, run.id, run.attempt)
    name = Placement.of(run.placement or {}).provider or LOCAL
    return volume_for(session, run.organization_id, name, machine.storage if machine else Storage.VOLUME)


def bring_base(doors: Doors, repo_id: str, revision: str) -> Base:
    """The base model as a machine of this provider finds it, brought to its volume where it is not there yet."""
    base = find_base(repo_id, revision)
    if doors.storage is Storage.POD:
        return replace(base, folder=base_key(base))  # in the image, which boot puts where a volume has it
    return base if doors.name == LOCAL else stage_base(doors.volume, base)


def offers_of(doors: Doors) -> Sequence[Offer]:
    """As a job saw them last, so that a launch waits for no list; no session open."""
    return doors.known_offers or doors.provider.offers()


def choose_place(doors: Doors, placement: Placement, refusals: int, offered: Sequence[Offer]) -> Place:
    """The choice whose turn it is; without one, the cheapest that can be had."""
    wanted = placement.gpu_type(refusals)
    found = [offer for offer in offered if wanted in (None, offer.gpu_type)]
    usable = [offer for offer in found if offer.reason is None and offer.max_count >= placement.gpu_count] or found
    if not usable:
        raise Refused("No machine can be asked for.", [f"The provider no longer offers {wanted or 'any GPU'}."])
    offer = min(usable, key=lambda one: one.rate)
    rate = None if doors.provider.free else offer.rate * placement.gpu_count
    return Place(doors.name, offer.gpu_type, rate, doors.connection_id, doors.data_center, doors.options)
