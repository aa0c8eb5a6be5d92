"""Which provider and which files an organization works with: the only place that unseals credentials and builds with them."""

from __future__ import annotations

import errno
from uuid import UUID

from sqlmodel import Session, select

from tensorant_app.db.connections import Connection, Installation
from tensorant_app.domain.connections import LOCAL, RUNPOD, ConnectionKind
from tensorant_app.domain.errors import AuthFailed, TensorantError
from tensorant_app.providers.base import FileStore, Provider, Storage
from tensorant_app.providers.registry import PROVIDERS, STORES
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services.sealing import unseal
from tensorant_app.settings import get_settings


def provider_for(session: Session, organization_id: UUID, name: str = LOCAL) -> Provider:
    """This computer, or the organization's own account; `AuthFailed` where there is none or its key cannot be opened."""
    settings = get_settings()
    if name == LOCAL:
        return PROVIDERS[LOCAL](settings.trainer_python, settings.volume_dir, installation_of(session))
    secrets = unseal(_require(session, organization_id, ConnectionKind.RUNPOD_COMPUTE))
    return PROVIDERS[RUNPOD](secrets["api_key"], installation_of(session))


def provider_name(session: Session, organization_id: UUID) -> str:
    """Where a new run is trained unless its form says otherwise."""
    is_connected = find_connection(session, organization_id, ConnectionKind.RUNPOD_COMPUTE) is not None
    return RUNPOD if is_connected else LOCAL


def volume_for(
    session: Session, organization_id: UUID, name: str = LOCAL, storage: Storage = Storage.VOLUME
) -> FileStore:
    """The exchange with the machines of this provider; of one with a disk of its own, what it was given and has told."""
    if name == LOCAL or storage is Storage.POD:
        return home_volume()
    connection = _require(session, organization_id, ConnectionKind.RUNPOD_STORAGE)
    secrets, shown = unseal(connection), connection.shown
    return STORES[RUNPOD](secrets["access_key"], secrets["secret_key"], shown["data_center"], shown["volume_id"])


def home_volume() -> FolderStore:
    """The exchange with the machines of this computer, and the copies of what rented ones wrote."""
    return FolderStore(get_settings().volume_dir)


def find_connection(session: Session, organization_id: UUID, kind: ConnectionKind) -> Connection | None:
    """The row, for services; pages get `connecting.ConnectionView`."""
    own = select(Connection).where(Connection.organization_id == organization_id, Connection.kind == kind)
    return session.exec(own).one_or_none()


def installation_of(session: Session) -> str:
    """The name by which this installation knows its machines at a provider."""
    return session.exec(select(Installation)).one().id.hex


def store() -> FolderStore:
    """The console's own files."""
    return FolderStore(get_settings().store_dir)


def tell_disk_trouble(error: OSError) -> str:
    """A file that could not be written, as a sentence for people."""
    is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    advice = "Free some space" if is_full else "Look after this folder"
    what = error.strerror or str(error)
    return f"The files below {get_settings().data_dir} could not be written: {what}. {advice}, then try again."


def tell_trouble(error: OSError | TensorantError) -> str:
    """Why files could not be read or written, as a sentence for people."""
    return tell_disk_trouble(error) if isinstance(error, OSError) else str(error)


def _require(session: Session, organization_id: UUID, kind: ConnectionKind) -> Connection:
    connection = find_connection(session, organization_id, kind)
    if connection is None:
        raise AuthFailed(f"{kind.label} is not connected. The owner connects it under Connections.")
    return connection
