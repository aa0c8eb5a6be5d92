"""The row of a promise, and the statements that claim, hold and keep it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import visitors
from sqlmodel import Field, Session, SQLModel, UTCDateTime

# Sets the naming convention before the first table is made.
from tensorant_app.db import types  # noqa: F401

LEASE = timedelta(seconds=75)
"""Longer than the time limit of the fast queue; a slow job is `kept`."""
HIDE = timedelta(seconds=60)
"""How long a promise that was sent waits before it is taken for lost and sent again."""
CLOCK_SLACK = timedelta(seconds=60)
"""A row written further ahead of us than this was written before the clock went back."""


class Promise(SQLModel, table=True):
    """Look at `subject_id` in the way of `kind`, at `due_at` or soon after."""

    kind: str = Field(primary_key=True, max_length=40)
    subject_id: UUID = Field(primary_key=True)
    due_at: datetime = Field(index=True)
    written_at: datetime
    """When `due_at` (under a lease: `again_at`) was written, by the writer's clock."""
    hidden_until: datetime | None = None
    """Sent to a worker: don't send again before this."""
    lease_token: UUID | None = None
    lease_until: datetime | None = None
    lease_holder: str | None = None
    """The worker that took it: `Settings.worker`."""
    again_at: datetime | None = None
    """The earliest time asked for while the lease was held."""
    tries: int = 0
    """Looks in a row that ended in an unexpected error."""
    reason: str | None = None
    """The last of those errors."""


_table = SQLModel.metadata.tables["promise"]
_kind, _subject_id, _due_at = _table.c.kind, _table.c.subject_id, _table.c.due_at
_token, _until, _hidden = _table.c.lease_token, _table.c.lease_until, _table.c.hidden_until
_again_at, _written_at = _table.c.again_at, _table.c.written_at

_OFFSETS = {
    "now": timedelta(0),
    "after_hiding": HIDE,
    "long_after_hiding": 4 * HIDE,
    "after_lease": LEASE,
    "long_after_lease": 4 * LEASE,
    "after_slack": CLOCK_SLACK,
}
"""Times that a statement compares with, from the transaction's own."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that is built once: every job runs half a dozen, and to build one costs more than to run it."""

    statement: Any
    names: frozenset[str]

    @classmethod
    def of(cls, statement: Any) -> "Prepared":
        names = {part.key for part in visitors.iterate(statement) if isinstance(part, sa.BindParameter)}
        return cls(statement, frozenset(names & _OFFSETS.keys()))

    def run(self, session: Session, now: datetime, **values: Any) -> sa.CursorResult[Any]:
        times = {name: now + _OFFSETS[name] for name in self.names}
        return session.connection().execute(self.statement, {**times, **values})


def _time(name: str) -> sa.BindParameter[datetime]:
    return sa.bindparam(name, type_=UTCDateTime())


_IS_OF_FAST_CLOCK = _written_at > _time("after_slack")
_IS_FREE = sa.or_(_token.is_(None), _until <= _time("now"), _until > _time("long_after_lease"))
"""Nobody holds it: no lease, a lease that ended, or one from a clock that was ahead."""
_IS_DUE = sa.and_(
    sa.or_(_due_at <= _time("now"), _IS_OF_FAST_CLOCK),
    sa.or_(_hidden.is_(None), _hidden <= _time("now"), _hidden > _time("long_after_hiding")),
    _IS_FREE,
)
_IS_NAMED = sa.and_(_kind == sa.bindparam("the_kind"), _subject_id == sa.bindparam("the_subject", type_=sa.Uuid()))
_IS_OUR_TOKEN = _token == sa.bindparam("the_token", type_=sa.Uuid())
_IS_LEASED = sa.and_(_IS_NAMED, _IS_OUR_TOKEN)

ANY_DUE = Prepared.of(sa.select(sa.exists().where(_IS_DUE)))
CLAIM = Prepared.of(
    sa.update(_table)
    .where(
        sa.tuple_(_kind, _subject_id).in_(
            sa.select(_kind, _subject_id)
            .where(_IS_DUE)
            .order_by(_due_at)
            .limit(sa.bindparam("most", type_=sa.Integer()))
            .with_for_update(skip_locked=True)
        )
    )
    .values(hidden_until=_time("after_hiding"))
    .returning(_kind, _subject_id)
)
TAKE = Prepared.of(
    sa.update(_table)
    .where(
        _IS_NAMED,
        sa.or_(_due_at <= _time("now"), _IS_OF_FAST_CLOCK, sa.and_(_hidden.is_not(None), _hidden > _time("now"))),
        _IS_FREE,
    )
    .values(
        lease_token=sa.bindparam("the_token", type_=sa.Uuid()),
        lease_until=_time("after_lease"),
        lease_holder=sa.bindparam("holder"),
        due_at=_time("now"),
        written_at=_time("now"),
        hidden_until=None,
        again_at=None,
    )
    .returning(_table.c.tries)
)
IS_OURS = Prepared.of(sa.select(sa.exists().where(_IS_LEASED)))
HOLD = Prepared.of(sa.update(_table).where(_IS_LEASED).values(lease_until=_time("after_lease")))
DELETE = Prepared.of(sa.delete(_table).where(_IS_LEASED, _again_at.is_(None)))
_ASKED = sa.case((_IS_OF_FAST_CLOCK, _time("now")), else_=_again_at)


def _freeing(due: sa.ColumnElement[Any]) -> Prepared:
    values = {"due_at": due, "written_at": _time("now"), "tries": sa.bindparam("tried"), "reason": sa.bindparam("why")}
    nothing = dict.fromkeys(("hidden_until", "lease_token", "lease_until", "lease_holder", "again_at"))
    return Prepared.of(sa.update(_table).where(_IS_LEASED).values(**values, **nothing))


FREE_AS_ASKED = _freeing(_ASKED)
FREE = _freeing(sa.case((sa.and_(_again_at.is_not(None), _time("wanted") > _ASKED), _ASKED), else_=_time("wanted")))


def _upserting(insert: Any) -> Prepared:
    insert = insert.values(
        kind=sa.bindparam("the_kind"),
        subject_id=sa.bindparam("the_subject", type_=sa.Uuid()),
        due_at=_time("wanted"),
        written_at=_time("now"),
        tries=0,
    )
    wanted = insert.excluded.due_at
    is_held = _token.is_not(None)
    before = sa.case((is_held, _again_at), (_IS_OF_FAST_CLOCK, _time("now")), else_=_due_at)
    is_first = sa.or_(before.is_(None), wanted < before)
    earliest = sa.case((is_first, wanted), else_=before)
    changed = {
        # A lease holder that dies leaves it due, also where it read a clock that was ahead.
        "due_at": sa.case((sa.and_(is_held, _due_at > _time("now")), _time("now")), (is_held, _due_at), else_=earliest),
        "again_at": sa.case((is_held, earliest), else_=None),
        "written_at": sa.case((sa.or_(is_first, _IS_OF_FAST_CLOCK), _time("now")), else_=_written_at),
        "hidden_until": sa.case((wanted <= _time("now"), None), else_=_hidden),
    }
    return Prepared.of(insert.on_conflict_do_update(index_elements=["kind", "subject_id"], set_=changed))


UPSERT = {"sqlite": _upserting(sqlite.insert(_table)), "postgresql": _upserting(postgresql.insert(_table))}
