"""Keep how a person said that a file is to be read, and that its first rows were looked at."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("import", schema=None) as batch_op:
        batch_op.add_column(sa.Column("arrived", sa.Boolean(), nullable=False, server_default=sa.false()))
        batch_op.add_column(sa.Column("previewed", sa.Boolean(), nullable=False, server_default=sa.false()))
        batch_op.add_column(sa.Column("mapping", _JSON, nullable=True))
        batch_op.add_column(sa.Column("format", sa.String(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("warnings", sa.Integer(), nullable=False, server_default="0"))
