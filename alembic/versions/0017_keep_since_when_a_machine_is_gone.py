"""Keep since when a machine is not found any more: what it costs ends there, once that is proved."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("machine", schema=None) as batch_op:
        batch_op.add_column(sa.Column("gone_since", sa.DateTime(timezone=True), nullable=True))
