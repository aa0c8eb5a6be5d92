"""What an account owns besides Pods: network volumes, secrets whose values nobody reads back, registry credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.runpod_emulator.billing import Meter
from tests.runpod_emulator.catalog import Catalog
from tests.runpod_emulator.clock import Clock
from tests.runpod_emulator.wire import ApiError

_PER_GB_HOUR = Decimal("0.07") / 730


@dataclass(slots=True)
class Volume:
    id: str
    name: str
    size: int
    """GB."""
    dc: str
    type: str
    folder: Path
    meter: Meter
    is_deleted: bool = False

    def answer(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "size": self.size, "dataCenter": self.dc, "type": self.type}


@dataclass(frozen=True, slots=True)
class Secret:
    id: str
    name: str
    value: str
    description: str = ""

    def answer(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "description": self.description}


@dataclass(frozen=True, slots=True)
class Registry:
    id: str
    name: str

    def answer(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name}


@dataclass(slots=True)
class Things:
    clock: Clock
    catalog: Catalog
    folder: Path
    _volumes: dict[str, Volume] = field(default_factory=dict)
    _secrets: dict[str, Secret] = field(default_factory=dict)
    _registries: dict[str, Registry] = field(default_factory=dict)

    def all_volumes(self) -> Sequence[Volume]:
        return list(self._volumes.values())

    def volumes(self) -> Sequence[Volume]:
        return [volume for volume in self._volumes.values() if not volume.is_deleted]

    def volume(self, volume_id: str) -> Volume:
        volume = self._volumes.get(volume_id)
        if volume is None or volume.is_deleted:
            raise ApiError(404, "network volume not found")
        return volume

    def add_volume(self, body: Mapping[str, Any], volume_id: str | None = None) -> Volume:
        dc = self.catalog.data_centers.get(body["dataCenter"])
        kind = body.get("type", "STANDARD")
        if dc is None or kind not in dc.volume_types:
            raise ApiError(400, f"data center {body['dataCenter']!r} has no {kind} network volumes")
        new_id = volume_id or f"vol{len(self._volumes) + 1:07d}"
        folder = self.folder / "volumes" / new_id
        folder.mkdir(parents=True, exist_ok=True)
        volume = Volume(new_id, body["name"], body["size"], dc.id, kind, folder, Meter(new_id))
        volume.meter.switch(self.clock(), Decimal(0), _PER_GB_HOUR * volume.size)
        self._volumes[new_id] = volume
        return volume

    def change_volume(self, volume_id: str, body: Mapping[str, Any]) -> Volume:
        volume = self.volume(volume_id)
        if body.get("size", volume.size) < volume.size:
            raise ApiError(400, "a network volume can only grow")
        volume.name, volume.size = body.get("name", volume.name), body.get("size", volume.size)
        volume.meter.switch(self.clock(), Decimal(0), _PER_GB_HOUR * volume.size)
        return volume

    def delete_volume(self, volume_id: str) -> None:
        volume = self.volume(volume_id)
        volume.is_deleted = True
        volume.meter.switch(self.clock(), Decimal(0), Decimal(0))

    def secrets(self) -> Sequence[Secret]:
        return list(self._secrets.values())

    def secret(self, secret_id: str) -> Secret:
        if secret_id not in self._secrets:
            raise ApiError(404, "secret not found")
        return self._secrets[secret_id]

    def put_secret(self, body: Mapping[str, Any], secret_id: str | None = None) -> Secret:
        """A new one, or the new value of one there is."""
        if secret_id is None and any(secret.name == body["name"] for secret in self._secrets.values()):
            raise ApiError(409, f"a secret named {body['name']!r} exists")
        old = self.secret(secret_id) if secret_id else Secret(f"sec{len(self._secrets) + 1:07d}", body["name"], "")
        new = Secret(old.id, old.name, body.get("value", old.value), body.get("description", old.description))
        self._secrets[new.id] = new
        return new

    def delete_secret(self, secret_id: str) -> None:
        del self._secrets[self.secret(secret_id).id]

    def secret_value(self, name: str) -> str:
        """What a container's environment gets for a reference; nothing where there is no such secret."""
        return next((secret.value for secret in self._secrets.values() if secret.name == name), "")

    def registries(self) -> Sequence[Registry]:
        return list(self._registries.values())

    def registry(self, registry_id: str) -> Registry:
        if registry_id not in self._registries:
            raise ApiError(404, "registry not found")
        return self._registries[registry_id]

    def add_registry(self, body: Mapping[str, Any]) -> Registry:
        registry = Registry(f"reg{len(self._registries) + 1:07d}", body["name"])
        self._registries[registry.id] = registry
        return registry

    def delete_registry(self, registry_id: str) -> None:
        del self._registries[self.registry(registry_id).id]
