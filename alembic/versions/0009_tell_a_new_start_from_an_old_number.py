"""Keep the uptime by which a machine's container was seen to begin."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("machine", schema=None) as batch_op:
        batch_op.add_column(sa.Column("container_uptime", sa.Float(), nullable=True))
