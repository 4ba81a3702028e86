"""The gates of each outcome on record (R-010), and judgments kept for their inputs, which may be thrown away."""

import sqlalchemy as sa
from alembic import op

from research_exchange.store.migrations.guards import forbid_changes

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """How many sessions an older outcome had seen is not known; it counts as none."""
    op.execute("ALTER TABLE outcomes ADD COLUMN after_session INTEGER NOT NULL DEFAULT 0")
    op.create_table(
        "gates",
        sa.Column("run_id", sa.String(14), nullable=False),
        sa.Column("outcome", sa.Integer, nullable=False),
        sa.Column("gate", sa.String(64), nullable=False),
        sa.Column("applicability", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("validator_version", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "outcome", "gate"),
        sa.ForeignKeyConstraint(["run_id", "outcome"], ["outcomes.run_id", "outcomes.number"]),
    )
    forbid_changes("gates", ("run_id", "outcome", "gate"))
    op.create_table(
        "judgment_cache",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("input_sha256", sa.String(64), nullable=False),
        sa.Column("validator_version", sa.String(64), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("judgment", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "input_sha256", "validator_version"),
    )


def downgrade() -> None:
    raise NotImplementedError("The gates of an outcome are part of the record.")
