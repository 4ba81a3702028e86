"""The first tables, and the triggers that keep them append-only."""

import sqlalchemy as sa
from alembic import op

from research_exchange.store.migrations.guards import forbid_changes, forbid_gaps

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEYS = {
    "specs": ("id",),
    "runs": ("id",),
    "sessions": ("id",),
    "session_ends": ("session_id",),
    "updates": ("run_id", "sequence"),
    "evidence": ("run_id", "name"),
    "refusals": ("run_id", "number"),
    "outcomes": ("run_id", "number"),
}
"""Append-only tables and their keys."""

GAPLESS = {"updates": "sequence", "refusals": "number", "outcomes": "number"}
"""Columns that count 1, 2, 3 ... within a run."""


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "specs",
        sa.Column("id", sa.String(14), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(14), primary_key=True),
        sa.Column("spec_id", sa.String(14), sa.ForeignKey("specs.id"), nullable=False, index=True),
        sa.Column(
            "launch_mode", sa.String(16), sa.CheckConstraint("launch_mode IN ('ordinary', 'redo')"), nullable=False
        ),
        sa.Column("created_at", moment, nullable=False, index=True),
    )
    op.create_table(
        "tokens",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False, index=True),
        sa.Column("created_at", moment, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(14), primary_key=True),
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False, index=True),
        sa.Column("started_at", moment, nullable=False),
    )
    op.create_table(
        "session_ends",
        sa.Column("session_id", sa.String(14), sa.ForeignKey("sessions.id"), primary_key=True),
        sa.Column("ended_at", moment, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_table(
        "updates",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("sequence", sa.Integer, sa.CheckConstraint("sequence >= 1"), nullable=False),
        sa.Column("received_at", moment, nullable=False),
        sa.Column("session_id", sa.String(14), sa.ForeignKey("sessions.id")),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "sequence"),
    )
    op.create_table(
        "evidence",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("update_sequence", sa.Integer),
        sa.Column("received_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name"),
        sa.ForeignKeyConstraint(["run_id", "update_sequence"], ["updates.run_id", "updates.sequence"]),
    )
    op.create_table(
        "refusals",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("problems", sa.Text, nullable=False),
        sa.Column("update_sequence", sa.Integer),
        sa.Column("received_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number"),
        sa.ForeignKeyConstraint(["run_id", "update_sequence"], ["updates.run_id", "updates.sequence"]),
    )
    op.create_table(
        "outcomes",
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("recorded_at", moment, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("validator_version", sa.String(64), nullable=False),
        sa.Column("judgment", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number"),
    )
    for table, key in KEYS.items():
        forbid_changes(table, key)
    for table, column in GAPLESS.items():
        forbid_gaps(table, column)


def downgrade() -> None:
    raise NotImplementedError("The first tables hold the record of every run; there is nothing before them.")
