"""Writing down who did what; entries are only ever added."""

from __future__ import annotations

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
    at = now_of(session)
    entry = AuditEntry(
        id=clock.new_id(at),
        at=at,
        organization_id=organization_id or caller.organization_id,
        member_id=caller.member_id,
        who=caller.name,
        action=action,
        subject_id=subject_id,
        facts=facts,
    )
    session.add(entry)
