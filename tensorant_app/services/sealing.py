"""Secrets at rest: sealed with the newest key, bound to the row they belong to, and sealed anew when keys change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlmodel import Session, select

from tensorant_app.db.connections import Connection, Installation
from tensorant_app.db.safety import SafetyChoice
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.errors import AuthFailed, Refused
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.audit import write_audit
from tensorant_app.settings import get_settings

CLASSIFIER = "classifier"
"""What a token is bound to beside its organization."""


def seal(session: Session, connection_id: UUID, kind: ConnectionKind, secrets: Mapping[str, str]) -> str:
    """Inside the writing transaction: no rotation can pass between reading the key and storing what it sealed."""
    session.exec(select(Installation).with_for_update(read=True)).one()
    return _seal(_keys(), connection_id, kind, secrets)


def unseal(connection: Connection) -> dict[str, str]:
    """The secrets, or `AuthFailed` where no key opens them or they were sealed for another row."""
    return _unseal(_keys(), connection)


def seal_token(session: Session, organization_id: UUID, token: str) -> str:
    """A classifier's, bound to the organization; as `seal`."""
    session.exec(select(Installation).with_for_update(read=True)).one()
    return _seal(_keys(), organization_id, CLASSIFIER, {"token": token})


def unseal_token(organization_id: UUID, sealed: str) -> str:
    """The token, or `AuthFailed` with what to do."""
    return _open_token(_keys(), organization_id, sealed)


def rotate_keys(session: Session, caller: Caller) -> int:
    """Seal every row anew with the newest key, or none of them; how many. Any number of times."""
    caller.require(Permission.OPERATE)
    session.exec(select(Installation).with_for_update()).one()
    keys, newest = _keys(), MultiFernet([Fernet(get_settings().read_secret_keys()[0])])
    rows = session.exec(select(Connection).order_by(Connection.id)).all()  # type: ignore[arg-type]
    choices = session.exec(select(SafetyChoice).where(SafetyChoice.sealed != "")).all()
    closed = []
    for row in rows:
        try:
            row.sealed = _seal(newest, row.id, row.kind, _unseal(keys, row))
        except AuthFailed:
            closed.append(f"{row.kind.label} of organization {row.organization_id}, ending in {row.last_four}")
    for choice in choices:
        try:
            token = _open_token(keys, choice.organization_id, choice.sealed)
            choice.sealed = _seal(newest, choice.organization_id, CLASSIFIER, {"token": token})
        except AuthFailed:
            closed.append(f"Classifier of organization {choice.organization_id}, ending in {choice.last_four}")
    if closed:
        raise Refused("No key opens these, so nothing was changed. Remove or replace them first.", closed)
    write_audit(session, caller, "keys.rotate", connections=len(rows), classifiers=len(choices))
    return len(rows) + len(choices)


def _keys() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in get_settings().read_secret_keys()])


def _seal(keys: MultiFernet, row_id: UUID, kind: str, secrets: Mapping[str, str]) -> str:
    # Fernet knows no associated data: the row stands inside, so that a copied cipher text opens nowhere else.
    payload = {"c": str(row_id), "k": str(kind), "v": dict(secrets)}
    return keys.encrypt(json.dumps(payload).encode()).decode("ascii")


def _unseal(keys: MultiFernet, connection: Connection) -> dict[str, str]:
    what = f"credentials of {connection.kind.label}"
    return _open(keys, connection.id, connection.kind, connection.sealed, what, "connection", "in Connections")


def _open_token(keys: MultiFernet, organization_id: UUID, sealed: str) -> str:
    return _open(keys, organization_id, CLASSIFIER, sealed, "token of the classifier", "organization", "in Settings")[
        "token"
    ]


def _open(keys: MultiFernet, row_id: UUID, kind: str, sealed: str, what: str, owner: str, place: str) -> dict[str, str]:
    try:
        payload = json.loads(keys.decrypt(sealed.encode()))
    except InvalidToken:
        raise AuthFailed(
            f"The stored {what} cannot be opened with this installation's keys. "
            f"Bring back the key that sealed them (TENSORANT_SECRET_KEYS), or paste them again {place}."
        ) from None
    if (payload["c"], payload["k"]) != (str(row_id), str(kind)):
        raise AuthFailed(f"The stored {what} were sealed for another {owner}. Paste them again {place}.")
    return {str(name): str(value) for name, value in payload["v"].items()}
