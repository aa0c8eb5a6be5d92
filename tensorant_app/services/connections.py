"""Which provider and which files an organization works with; the only place that builds them."""

from __future__ import annotations

import errno
from uuid import UUID

from sqlmodel import Session

from tensorant_app.providers.base import Provider
from tensorant_app.providers.registry import LOCAL, PROVIDERS
from tensorant_app.providers.storage import FolderStore
from tensorant_app.settings import get_settings


def provider_for(session: Session, organization_id: UUID) -> Provider:
    """This computer, for everybody, until an owner can connect an account."""
    settings = get_settings()
    return PROVIDERS[LOCAL](settings.trainer_python, settings.volume_dir, settings.installation_id)


def provider_name(session: Session, organization_id: UUID) -> str:
    return LOCAL


def volume_for(session: Session, organization_id: UUID) -> FolderStore:
    """The exchange with the organization's machines."""
    return FolderStore(get_settings().volume_dir)


def store() -> FolderStore:
    """The console's own files."""
    return FolderStore(get_settings().store_dir)


def tell_disk_trouble(error: OSError) -> str:
    """A file that could not be written, as a sentence for people."""
    is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    advice = "Free some space" if is_full else "Look after this folder"
    what = error.strerror or str(error)
    return f"The files below {get_settings().data_dir} could not be written: {what}. {advice}, then try again."
