"""A network volume of the emulator's, in process: no socket, and waiting costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorant_app.providers.s3 import make_client
from tensorant_app.providers.storage_s3 import S3Store
from tests.runpod_emulator import Emulator, attach_s3


def volume_of(emulator: Emulator, cache: Path) -> S3Store:
    return S3Store(emulator.volume.id, client_of(emulator), cache, wait=lambda seconds: None)


def client_of(emulator: Emulator) -> Any:
    access_key, secret_key = emulator.s3_keys
    # Not the shared one: its hook belongs to this emulator alone.
    client = make_client.__wrapped__(emulator.s3_url, emulator.volume.dc, access_key, secret_key, is_patient=False)
    attach_s3(client, emulator.world)
    return client
