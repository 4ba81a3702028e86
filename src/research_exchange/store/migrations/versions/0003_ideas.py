"""Ideas, what was said of them and when, and from which of it a spec version came (R-001 to R-003)."""

import sqlalchemy as sa
from alembic import op

from research_exchange.store.migrations.guards import forbid_changes, forbid_gaps

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "ideas",
        sa.Column("id", sa.String(15), primary_key=True),
        sa.Column("created_at", moment, nullable=False, index=True),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("source_key", sa.Text, unique=True),
    )
    op.create_table(
        "idea_snapshots",
        sa.Column("idea_id", sa.String(15), sa.ForeignKey("ideas.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("summary", sa.Text),
        sa.Column("source_url", sa.Text),
        sa.Column("triage", sa.Text),
        sa.PrimaryKeyConstraint("idea_id", "number"),
    )
    op.create_table(
        "spec_origins",
        sa.Column("spec_id", sa.String(14), sa.ForeignKey("specs.id"), primary_key=True),
        sa.Column("parent", sa.String(14), sa.ForeignKey("specs.id")),
        sa.Column("idea_id", sa.String(15), index=True),
        sa.Column("idea_snapshot", sa.Integer),
        sa.ForeignKeyConstraint(["idea_id", "idea_snapshot"], ["idea_snapshots.idea_id", "idea_snapshots.number"]),
        sa.CheckConstraint("(idea_id IS NULL) = (idea_snapshot IS NULL)"),
    )
    forbid_changes("ideas", ("id",))
    forbid_changes("idea_snapshots", ("idea_id", "number"))
    forbid_changes("spec_origins", ("spec_id",))
    forbid_gaps("idea_snapshots", "number", within="idea_id")


def downgrade() -> None:
    raise NotImplementedError("Ideas are part of the record; they are never forgotten.")
