"""Who is told when a run ends or a gate fails, and what became of each message."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "hooks",
        sa.Column("id", sa.String(15), primary_key=True),
        sa.Column("kind", sa.String(16), sa.CheckConstraint("kind IN ('webhook', 'slack')"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret_ref", sa.Text),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("removed_at", moment),
    )
    op.create_table(
        "deliveries",
        sa.Column("hook_id", sa.String(15), sa.ForeignKey("hooks.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False, index=True),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column(
            "status",
            sa.String(16),
            sa.CheckConstraint("status IN ('pending', 'delivered', 'failed')"),
            nullable=False,
            index=True,
        ),
        sa.Column("detail", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("hook_id", "number"),
    )


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("hooks")
