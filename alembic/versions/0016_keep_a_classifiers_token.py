"""Keep the sealed token of an organization's classifier."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("safety_choice", schema=None) as batch_op:
        for name in ("header", "sealed", "last_four"):
            batch_op.add_column(sa.Column(name, sa.String(), nullable=False, server_default=""))
        for name in ("header", "sealed", "last_four"):
            batch_op.alter_column(name, server_default=None)
