"""trials, pinned prompts, and a version's place for the system text."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("dataset_version", schema=None) as batch_op:
        batch_op.add_column(sa.Column("merge_system", sa.Boolean(), nullable=False, server_default=sa.false()))

    with op.batch_alter_table("project", schema=None) as batch_op:
        batch_op.add_column(sa.Column("sample_prompts", _JSON, nullable=False, server_default="[]"))

    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("trial", _JSON, nullable=True))
        batch_op.add_column(sa.Column("trial_report", _JSON, nullable=True))
        batch_op.add_column(sa.Column("trial_id", sa.Uuid(), nullable=True))
    _leave_out("run", "settings", "merge_system")


def downgrade() -> None:
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.drop_column("trial_id")
        batch_op.drop_column("trial_report")
        batch_op.drop_column("trial")

    with op.batch_alter_table("project", schema=None) as batch_op:
        batch_op.drop_column("sample_prompts")

    with op.batch_alter_table("dataset_version", schema=None) as batch_op:
        batch_op.drop_column("merge_system")


def _leave_out(table: str, column: str, key: str) -> None:
    """The place of the system text was a run's setting without effect on masks and baselines; now it is a version's."""
    rows = sa.table(table, sa.column("id", sa.Uuid()), sa.column(column, _JSON))
    connection = op.get_bind()
    for row_id, stored in connection.execute(sa.select(rows.c.id, rows.c[column])).all():
        values = json.loads(stored) if isinstance(stored, str) else stored
        if values and key in values:
            kept = {name: value for name, value in values.items() if name != key}
            connection.execute(sa.update(rows).where(rows.c.id == row_id).values({column: kept}))
