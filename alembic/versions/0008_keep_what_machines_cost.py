"""Keep what the provider billed for each machine."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("machine", schema=None) as batch_op:
        batch_op.add_column(sa.Column("billed_ids", _JSON, nullable=False, server_default="[]"))
        batch_op.add_column(sa.Column("stopped_at", _TIME, nullable=True))
    with op.batch_alter_table("machine", schema=None) as batch_op:
        batch_op.alter_column("billed_ids", server_default=None)
    op.create_table(
        "machine_bill",
        sa.Column("machine_id", sa.Uuid(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("covers_until", _TIME, nullable=True),
        sa.Column("synced_at", _TIME, nullable=True),
        sa.Column("agreed_since", _TIME, nullable=True),
        sa.Column("settled_at", _TIME, nullable=True),
        sa.Column("problem", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_machine_bill_machine_id_machine")),
        sa.PrimaryKeyConstraint("machine_id", name=op.f("pk_machine_bill")),
    )
    op.create_table(
        "spend_entry",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("machine_id", sa.Uuid(), nullable=False),
        sa.Column("hour", _TIME, nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_spend_entry_machine_id_machine")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_spend_entry_organization_id_organization")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spend_entry")),
    )
    for column in ("hour", "machine_id", "organization_id"):
        op.create_index(op.f(f"ix_spend_entry_{column}"), "spend_entry", [column], unique=False)
