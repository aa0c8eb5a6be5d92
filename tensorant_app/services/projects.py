"""Projects: one base model and what is tuned from it."""

from __future__ import annotations

import re
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db import clock
from tensorant_app.db.projects import Project
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.audit import write_audit
from tensorant_app.services.bases import BaseFacts

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[0-9a-f]{40}")


def create_project(session: Session, caller: Caller, name: str, facts: BaseFacts) -> UUID:
    """`facts` come from `bases.inspect_base`, looked at before the transaction began."""
    caller.require(Permission.PREPARE)
    wrong = {}
    if not name.strip():
        wrong["name"] = "A project needs a name."
    if not _REPO_ID.fullmatch(facts.base.repo_id):
        wrong["base_repo_id"] = f"{facts.base.repo_id!r} is not a model's name; it looks like organization/name."
    if not _REVISION.fullmatch(facts.base.revision):
        wrong["base_revision"] = "A base model's revision is 40 hexadecimal digits, never a branch or a tag."
    if wrong or caller.organization_id is None:
        raise Invalid(wrong or {"organization": "A project belongs to an organization; act as one of its members."})
    at = now_of(session)
    project = Project(
        id=clock.new_id(at),
        created_at=at,
        organization_id=caller.organization_id,
        name=name.strip(),
        base_repo_id=facts.base.repo_id,
        base_revision=facts.base.revision,
        base_parameters=facts.parameters,
    )
    session.add(project)
    write_audit(session, caller, "projects.create", project.id, base=facts.base.repo_id)
    return project.id
