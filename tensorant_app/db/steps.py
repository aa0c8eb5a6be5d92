"""Moving a row along its state table: a compare-and-swap that writes its event in the same transaction."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import CursorResult, update
from sqlmodel import Field, Session, SQLModel

from tensorant_app.db.session import now_of
from tensorant_app.db.types import word_type
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.steps import Cause, Lifecycle


class StepEvent(SQLModel):
    """What every table of events holds; each adds the key of its noun."""

    id: int | None = Field(default=None, primary_key=True)
    subject_id: UUID
    at: datetime
    verb: str
    cause: Cause = Field(sa_type=word_type(Cause))
    state: str
    reason: str | None = None
    sentence: str | None = None


def begin(session: Session, row: Any, event: type[StepEvent], *, verb: str, cause: Cause) -> None:
    """Add a new row, whose state is the verb's target, with its first event."""
    session.add(row)
    session.flush()
    _write_event(session, row, event, verb=verb, cause=cause)


def step(
    session: Session,
    row: Any,
    lifecycle: Lifecycle[Any],
    event: type[StepEvent],
    *,
    verb: str,
    cause: Cause,
    reason: str | None = None,
    sentence: str | None = None,
) -> None:
    """Take the step, or raise `Conflict` where the table forbids it or another transaction was first."""
    target: StrEnum = lifecycle.next_state(row.state, verb, cause)
    table = type(row)
    session.flush()
    taken = session.execute(
        update(table)
        .where(table.id == row.id, table.state == row.state)
        .values(state=target)
        .execution_options(synchronize_session=False)
    )
    assert isinstance(taken, CursorResult)
    if taken.rowcount != 1:
        raise Conflict(f"This {lifecycle.noun} has just changed. Look again.")
    session.refresh(row)
    _write_event(session, row, event, verb=verb, cause=cause, reason=reason, sentence=sentence)


def note(session: Session, row: Any, event: type[StepEvent], *, verb: str, sentence: str) -> None:
    """Something happened to the row that is no step: told among its events."""
    _write_event(session, row, event, verb=verb, cause=Cause.WORKER, sentence=sentence)


def _write_event(
    session: Session,
    row: Any,
    event: type[StepEvent],
    *,
    verb: str,
    cause: Cause,
    reason: str | None = None,
    sentence: str | None = None,
) -> None:
    session.add(
        event(
            subject_id=row.id,
            at=now_of(session),
            verb=verb,
            cause=cause,
            state=row.state.value,
            reason=reason,
            sentence=sentence,
        )
    )
