"""Look at whole accounts, and keep what every special path of a rented machine needs."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MACHINE: tuple[tuple[str, sa.types.TypeEngine[object], str | None], ...] = (
    ("connection_id", sa.Uuid(), None),
    ("gpu_count", sa.Integer(), "1"),
    ("data_center", sa.String(), None),
    ("options", _JSON, "{}"),
    ("rate", sa.BigInteger(), None),
    ("rate_limit", sa.BigInteger(), None),
    ("answer_lost_at", _TIME, None),
    ("held_at", _TIME, None),
    ("started_at", _TIME, None),
    ("provider_ids", _JSON, "[]"),
    ("presence", sa.String(length=40), None),
    ("seen_at", _TIME, None),
    ("container_began_at", _TIME, None),
    ("boots", sa.Integer(), "1"),
    ("read_at", _TIME, None),
    ("watched_until", _TIME, None),
    ("stop_wanted_at", _TIME, None),
    ("release_problem", sa.String(), None),
    ("words_sent", sa.Integer(), "0"),
    ("words_ask", sa.String(), "none"),
)
_RUN: tuple[tuple[str, sa.types.TypeEngine[object], str | None], ...] = (
    ("not_before", _TIME, None),
    ("waits_since", _TIME, None),
    ("refusals", sa.Integer(), "0"),
    ("placement", _JSON, None),
    ("runtime_limit_hours", sa.Float(), None),
    ("pause_wanted_at", _TIME, None),
    ("verify_wanted_at", _TIME, None),
)
_EVALUATION = _RUN[:4]


def upgrade() -> None:
    for table, columns in (("machine", _MACHINE), ("run", _RUN), ("evaluation", _EVALUATION)):
        with op.batch_alter_table(table, schema=None) as batch_op:
            for name, kind, default in columns:
                # Rows that are there get the value; later ones bring their own.
                batch_op.add_column(sa.Column(name, kind, nullable=default is None, server_default=default))
        with op.batch_alter_table(table, schema=None) as batch_op:
            for name, _, default in columns:
                if default is not None:
                    batch_op.alter_column(name, server_default=None)
    # What lies on the volumes was written by the ask.
    op.execute(sa.text("UPDATE machine SET words_sent = words_seq"))
    with op.batch_alter_table("machine", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_machine_connection_id"), ["connection_id"], unique=False)
    _create_accounts()
    _create_uploads()


def _create_accounts() -> None:
    op.create_table(
        "account",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=True),
        sa.Column("looked_at", _TIME, nullable=True),
        sa.Column("swept_at", _TIME, nullable=True),
        sa.Column("problem", sa.String(), nullable=True),
        sa.Column("problem_since", _TIME, nullable=True),
        sa.Column("is_refused", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_account_organization_id_organization")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
    )
    with op.batch_alter_table("account", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_account_organization_id"), ["organization_id"], unique=False)
    op.create_table(
        "stray_machine",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("provider_status", sa.String(), nullable=False),
        sa.Column("rate", sa.BigInteger(), nullable=True),
        sa.Column("created_at", _TIME, nullable=True),
        sa.Column("first_seen_at", _TIME, nullable=False),
        sa.Column("seen_at", _TIME, nullable=False),
        sa.Column("terminate_wanted_at", _TIME, nullable=True),
        sa.Column("terminate_problem", sa.String(), nullable=True),
        sa.Column("absent_since", _TIME, nullable=True),
        sa.Column("absent_looks", sa.Integer(), nullable=False),
        sa.Column("gone_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_stray_machine_organization_id_organization")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stray_machine")),
        sa.UniqueConstraint("account_id", "provider_id", name=op.f("uq_stray_machine_account_id_provider_id")),
    )
    with op.batch_alter_table("stray_machine", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_stray_machine_organization_id"), ["organization_id"], unique=False)


def _create_uploads() -> None:
    op.create_table(
        "adapter_upload",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("created_by", sa.Uuid(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=40), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["created_by"], ["member.id"], name=op.f("fk_adapter_upload_created_by_member")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organization.id"], name=op.f("fk_adapter_upload_organization_id_organization")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_adapter_upload_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_adapter_upload")),
    )
    with op.batch_alter_table("adapter_upload", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_adapter_upload_organization_id"), ["organization_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_adapter_upload_run_id"), ["run_id"], unique=False)


def downgrade() -> None:
    op.drop_table("adapter_upload")
    op.drop_table("stray_machine")
    op.drop_table("account")
    with op.batch_alter_table("machine", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_machine_connection_id"))
    for table, columns in (("evaluation", _EVALUATION), ("run", _RUN), ("machine", _MACHINE)):
        with op.batch_alter_table(table, schema=None) as batch_op:
            for name, _, _ in reversed(columns):
                batch_op.drop_column(name)
