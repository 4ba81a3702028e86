"""Tokens for people as well as runners, that end and can be revoked (R-241); and a log of who did what."""

import sqlalchemy as sa
from alembic import op

from research_exchange.store.migrations.guards import forbid_changes, forbid_gaps

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The runners' tokens given out before keep working, as they were: without an end."""
    moment = sa.DateTime(timezone=True)
    op.execute("CREATE TABLE older_tokens AS SELECT * FROM tokens")
    op.drop_table("tokens")
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(14), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column(
            "role",
            sa.String(16),
            sa.CheckConstraint("role IN ('admin', 'researcher', 'reviewer', 'runner')"),
            nullable=False,
        ),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("run_id", sa.String(14), sa.ForeignKey("runs.id"), index=True),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("expires_at", moment),
        sa.Column("revoked_at", moment),
        sa.CheckConstraint("(role = 'runner') = (run_id IS NOT NULL)"),
    )
    op.execute(
        "INSERT INTO tokens (id, sha256, role, name, run_id, created_at) "
        "SELECT 'tok_' || substr(sha256, 1, 10), sha256, 'runner', run_id, run_id, created_at FROM older_tokens"
    )
    op.drop_table("older_tokens")
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False, index=True),
        sa.Column("detail", sa.Text, nullable=False),
    )
    forbid_changes("audit", ("number",))
    forbid_gaps("audit", "number", within=None)


def downgrade() -> None:
    raise NotImplementedError("An older version would take an ended token for a good one.")
