"""Keep since when a machine costs how much, and until when a provider wants to be left alone."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None
_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("machine", schema=None) as batch_op:
        batch_op.add_column(sa.Column("prices", _JSON, nullable=False, server_default="[]"))
        batch_op.add_column(sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("account", schema=None) as batch_op:
        batch_op.add_column(sa.Column("quiet_until", sa.DateTime(timezone=True), nullable=True))
