"""Runs that wait, are taken or cancelled; who sits at a run, with which brief, and when each was last heard of."""

import sqlalchemy as sa
from alembic import op

from research_exchange.store.migrations.guards import forbid_changes, forbid_gaps, updates_allowed

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Sessions of older runs were all of local scripts; they are numbered by the time they started."""
    moment = sa.DateTime(timezone=True)
    op.execute("ALTER TABLE runs ADD COLUMN redo_of VARCHAR(14) REFERENCES runs (id)")
    op.execute("ALTER TABLE updates ADD COLUMN idempotency_key TEXT")
    op.create_index("ix_updates_idempotency_key", "updates", ["run_id", "idempotency_key"], unique=True)
    op.execute("ALTER TABLE sessions ADD COLUMN number INTEGER NOT NULL DEFAULT 0")
    op.execute(
        "ALTER TABLE sessions ADD COLUMN runner VARCHAR(16) NOT NULL DEFAULT 'local' "
        "CHECK (runner IN ('local', 'agent', 'manual', 'script'))"
    )
    op.execute("ALTER TABLE sessions ADD COLUMN brief_sha256 VARCHAR(64)")
    with updates_allowed("sessions"):
        op.execute(
            "UPDATE sessions SET number = (SELECT COUNT(*) FROM sessions AS earlier "
            "WHERE earlier.run_id = sessions.run_id AND (earlier.started_at < sessions.started_at "
            "OR (earlier.started_at = sessions.started_at AND earlier.id <= sessions.id)))"
        )
    forbid_gaps("sessions", "number")
    op.create_table(
        "heartbeats",
        sa.Column("session_id", sa.String(14), sa.ForeignKey("sessions.id"), primary_key=True),
        sa.Column("last_seen", moment, nullable=False),
    )
    op.create_table(
        "queue",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("queued_at", moment, nullable=False),
        sa.Column("not_before", moment, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number"),
    )
    op.create_table(
        "queue_claims",
        sa.Column("run_id", sa.String(14), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number"),
        sa.ForeignKeyConstraint(["run_id", "number"], ["queue.run_id", "queue.number"]),
    )
    op.create_table(
        "cancellations",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("at", moment, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    forbid_changes("queue", ("run_id", "number"))
    forbid_changes("queue_claims", ("run_id", "number"))
    forbid_changes("cancellations", ("run_id",))
    forbid_gaps("queue", "number")


def downgrade() -> None:
    raise NotImplementedError("Who sat at a run is part of its record.")
