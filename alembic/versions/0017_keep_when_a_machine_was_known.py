"""Keep when a provider first showed a machine, and since when it is not found: what it costs ends there, once that is proved."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("machine", schema=None) as batch_op:
        for name in ("known_at", "gone_since"):
            batch_op.add_column(sa.Column(name, sa.DateTime(timezone=True), nullable=True))
