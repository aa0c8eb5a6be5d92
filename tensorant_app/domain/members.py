"""Who may do what: one table, asked on the server at every event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from tensorant_app.domain.errors import Forbidden


class Role(StrEnum):
    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"
    OWNER = "owner"


class Permission(StrEnum):
    """What a caller wants; the value is the verb in the refusal's sentence."""

    SEE = "see this"
    PREPARE = "import, edit, freeze or save drafts"
    SPEND = "start or recover anything that costs money"
    STOP = "stop this"
    DECIDE = "publish, override the gate, delete a project or clean up files"
    ADMINISTER = "change members, slots or budgets"
    OWN = "change connections or owners"
    OPERATE = "administer the installation"


ALLOWED: dict[Permission, frozenset[Role]] = {
    Permission.SEE: frozenset(Role),
    Permission.PREPARE: frozenset({Role.MEMBER, Role.ADMIN, Role.OWNER}),
    Permission.SPEND: frozenset({Role.MEMBER, Role.ADMIN, Role.OWNER}),
    Permission.STOP: frozenset({Role.MEMBER, Role.ADMIN, Role.OWNER}),
    Permission.DECIDE: frozenset({Role.ADMIN, Role.OWNER}),
    Permission.ADMINISTER: frozenset({Role.ADMIN, Role.OWNER}),
    Permission.OWN: frozenset({Role.OWNER}),
    Permission.OPERATE: frozenset(),
}

OPERATOR_MAY = frozenset({Permission.SEE, Permission.STOP, Permission.OPERATE})
"""The operator looks after the installation; what an organization pays for is its own decision."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The member on whose behalf a service acts, or the operator of the installation."""

    organization_id: UUID | None
    """None only for the operator, who sees every organization."""
    member_id: UUID | None
    role: Role | None
    name: str
    """E-mail address, or `operator`; written into the audit trail."""

    @property
    def is_operator(self) -> bool:
        return self.role is None

    def require(self, permission: Permission) -> None:
        if permission in OPERATOR_MAY if self.is_operator else self.role in ALLOWED[permission]:
            return
        if self.is_operator:
            raise Forbidden(f"The operator may not {permission.value}. Act as a member: --as their e-mail address.")
        raise Forbidden(f"Your role ({self.role}) may not {permission.value}. Ask an admin or the owner.")


def operator() -> Caller:
    """Who holds a shell on the host. Audited, and never a role inside an organization."""
    return Caller(None, None, None, "operator")
