"""Keep every step of editing an import's rows, and which of them the check of a version took in."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None
_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "row_edit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("import_id", sa.Uuid(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("rows", _JSON, nullable=False),
        sa.Column("example", sa.String(), nullable=False),
        sa.Column("was_rejected", sa.Boolean(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column("added", sa.Integer(), nullable=False),
        sa.Column("undoes", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["import_id"], ["import.id"], name=op.f("fk_row_edit_import_id_import")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_row_edit_organization_id_organization")
        ),
        sa.ForeignKeyConstraint(["source_id"], ["import.id"], name=op.f("fk_row_edit_source_id_import")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_row_edit")),
    )
    with op.batch_alter_table("row_edit", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_row_edit_import_id"), ["import_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_row_edit_organization_id"), ["organization_id"], unique=False)
    with op.batch_alter_table("dataset_version", schema=None) as batch_op:
        batch_op.add_column(sa.Column("edit_id", sa.Integer(), nullable=False, server_default="0"))
