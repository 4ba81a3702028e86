"""When a file that was uploaded by itself came, by the run's own count: after which update."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of older files nobody knows; they count as having come before the first update."""
    op.add_column("evidence", sa.Column("after_update", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    raise NotImplementedError("When a file came decides what it may change; it is never forgotten.")
