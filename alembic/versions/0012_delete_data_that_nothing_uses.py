"""Keep that a version or an import was deleted, until and after its files are gone."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("dataset_version", "import"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.add_column(sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True))
            batch_op.add_column(sa.Column("files_gone_at", sa.DateTime(timezone=True), nullable=True))
