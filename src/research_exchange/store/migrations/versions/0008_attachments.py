"""Which run's runner handed in which attachment; what was handed in before and is not retained is handed in again."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attachments",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False, index=True),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "sha256"),
    )


def downgrade() -> None:
    op.drop_table("attachments")
