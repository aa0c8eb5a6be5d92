"""Writing down who did what; entries are only ever added."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db import clock
from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.session import now_of
from tensorant_app.domain.members import Caller


def write_audit(
    session: Session,
    caller: Caller,
    action: str,
    subject_id: UUID | None = None,
    *,
    organization_id: UUID | None = None,
    **facts: str | int | float | bool | None,
) -> None:
    """`action` is dotted, such as `runs.launch`; facts never hold a secret."""
    organization_id = organization_id or caller.organization_id
    _add(
        session, action, subject_id, facts, organization_id=organization_id, member_id=caller.member_id, who=caller.name
    )


def write_finding(
    session: Session, action: str, subject_id: UUID, organization_id: UUID, **facts: str | int | float | bool | None
) -> None:
    """What nobody did and somebody must be able to look up: the console found it."""
    _add(session, action, subject_id, facts, organization_id=organization_id, member_id=None, who=CONSOLE)


CONSOLE = "console"


def _add(session: Session, action: str, subject_id: UUID | None, facts: dict[str, Any], **who: Any) -> None:
    at = now_of(session)
    session.add(AuditEntry(id=clock.new_id(at), at=at, action=action, subject_id=subject_id, facts=facts, **who))
