"""Words and a classifier that an organization adds to the safety check, and a frozen version that is looked at again."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "safety_choice",
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("words", _JSON, nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("command", _JSON, nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("seconds", sa.Integer(), nullable=False),
        sa.Column("is_private_allowed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_safety_choice_organization_id_organization")
        ),
        sa.PrimaryKeyConstraint("organization_id", name=op.f("pk_safety_choice")),
    )
    with op.batch_alter_table("dataset_version", schema=None) as batch_op:
        batch_op.add_column(sa.Column("safety_asked_at", sa.DateTime(timezone=True), nullable=True))
