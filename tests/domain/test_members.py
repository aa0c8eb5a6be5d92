"""Who may do what."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from tensorant_app.domain.errors import Forbidden
from tensorant_app.domain.members import ALLOWED, OPERATOR_MAY, Caller, Permission, Role, operator

ORGANIZATION = UUID(int=1)


def caller(role: Role) -> Caller:
    return Caller(ORGANIZATION, UUID(int=2), role, f"{role}@example.com")


@pytest.mark.parametrize("permission", Permission)
def test_every_permission_names_its_roles(permission: Permission) -> None:
    for role in Role:
        if role in ALLOWED[permission]:
            caller(role).require(permission)
        else:
            with pytest.raises(Forbidden, match=f"Your role \\({role}\\)"):
                caller(role).require(permission)


def test_a_higher_role_may_whatever_a_lower_one_may() -> None:
    ladder = [Role.VIEWER, Role.MEMBER, Role.ADMIN, Role.OWNER]

    for lower, higher in pairwise(ladder):
        assert {p for p in Permission if lower in ALLOWED[p]} <= {p for p in Permission if higher in ALLOWED[p]}


@pytest.mark.parametrize("permission", Permission)
def test_the_operator_looks_and_stops_but_never_spends(permission: Permission) -> None:
    if permission in OPERATOR_MAY:
        operator().require(permission)
    else:
        with pytest.raises(Forbidden, match="--as"):
            operator().require(permission)
