"""The tables. All are append-only but `tokens`, `heartbeats`, `attachments`, `judgment_cache`, `hooks`, `deliveries`.

The migrations put triggers behind that.
"""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    select,
)

from research_exchange.store.columns import Instant, Words

metadata = MetaData()

ideas = Table(
    "ideas",
    metadata,
    Column("id", String(15), primary_key=True),
    Column("created_at", Instant, nullable=False, index=True),
    Column("author", Words, nullable=False),
    Column("source_key", Words, unique=True),
)

idea_snapshots = Table(
    "idea_snapshots",
    metadata,
    Column("idea_id", ForeignKey("ideas.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("author", Words, nullable=False),
    Column("title", Words, nullable=False),
    Column("summary", Words),
    Column("source_url", Words),
    Column("triage", Words),
    PrimaryKeyConstraint("idea_id", "number"),
)

specs = Table(
    "specs",
    metadata,
    Column("id", String(14), primary_key=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("title", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("raw", LargeBinary, nullable=False),
)

spec_origins = Table(
    "spec_origins",
    metadata,
    Column("spec_id", ForeignKey("specs.id"), primary_key=True),
    Column("parent", ForeignKey("specs.id")),
    Column("idea_id", String(15), index=True),
    Column("idea_snapshot", Integer),
    ForeignKeyConstraint(["idea_id", "idea_snapshot"], ["idea_snapshots.idea_id", "idea_snapshots.number"]),
    CheckConstraint("(idea_id IS NULL) = (idea_snapshot IS NULL)"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(14), primary_key=True),
    Column("spec_id", ForeignKey("specs.id"), nullable=False, index=True),
    Column("launch_mode", String(16), CheckConstraint("launch_mode IN ('ordinary', 'redo')"), nullable=False),
    Column("created_at", Instant, nullable=False, index=True),
    Column("redo_of", ForeignKey("runs.id")),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(14), primary_key=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column(
        "role",
        String(16),
        CheckConstraint("role IN ('admin', 'researcher', 'reviewer', 'runner')"),
        nullable=False,
    ),
    Column("name", Words, nullable=False),
    Column("run_id", ForeignKey("runs.id"), index=True),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    CheckConstraint("(role = 'runner') = (run_id IS NOT NULL)"),
)

audit = Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("actor", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("subject", Words, nullable=False, index=True),
    Column("detail", Words, nullable=False),
)

queue = Table(
    "queue",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("queued_at", Instant, nullable=False),
    Column("not_before", Instant, nullable=False),
    Column("reason", Words, nullable=False),
    Column("by", Words, nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
)

queue_claims = Table(
    "queue_claims",
    metadata,
    Column("run_id", String(14), nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("by", Words, nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
    ForeignKeyConstraint(["run_id", "number"], ["queue.run_id", "queue.number"]),
)

cancellations = Table(
    "cancellations",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("by", Words, nullable=False),
    Column("reason", Words, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(14), primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False, index=True),
    Column("started_at", Instant, nullable=False),
    Column("number", Integer, nullable=False, server_default="0"),
    Column(
        "runner",
        String(16),
        CheckConstraint("runner IN ('local', 'agent', 'manual', 'script')"),
        nullable=False,
        server_default="local",
    ),
    Column("brief_sha256", String(64)),
)

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("session_id", ForeignKey("sessions.id"), primary_key=True),
    Column("last_seen", Instant, nullable=False),
)

session_ends = Table(
    "session_ends",
    metadata,
    Column("session_id", ForeignKey("sessions.id"), primary_key=True),
    Column("ended_at", Instant, nullable=False),
    Column("exit_code", Integer),
    Column("reason", Words, nullable=False),
)

updates = Table(
    "updates",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("sequence", Integer, CheckConstraint("sequence >= 1"), nullable=False),
    Column("received_at", Instant, nullable=False),
    Column("session_id", ForeignKey("sessions.id")),
    Column("sha256", String(64), nullable=False),
    Column("size", Integer, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("idempotency_key", Words),
    PrimaryKeyConstraint("run_id", "sequence"),
    Index("ix_updates_idempotency_key", "run_id", "idempotency_key", unique=True),
)

evidence = Table(
    "evidence",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("name", Words, nullable=False),
    Column("position", Integer, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size", Integer, nullable=False),
    Column("update_sequence", Integer),
    Column("received_at", Instant, nullable=False),
    Column("after_update", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("run_id", "name"),
    ForeignKeyConstraint(["run_id", "update_sequence"], ["updates.run_id", "updates.sequence"]),
)

attachments = Table(
    "attachments",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("sha256", String(64), nullable=False, index=True),
    Column("size", Integer, nullable=False),
    Column("received_at", Instant, nullable=False),
    PrimaryKeyConstraint("run_id", "sha256"),
)

refusals = Table(
    "refusals",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("name", Words, nullable=False),
    Column("problems", Words, nullable=False),
    Column("update_sequence", Integer),
    Column("received_at", Instant, nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
    ForeignKeyConstraint(["run_id", "update_sequence"], ["updates.run_id", "updates.sequence"]),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("recorded_at", Instant, nullable=False),
    Column("cause", Words, nullable=False),
    Column("validator_version", String(64), nullable=False),
    Column("judgment", LargeBinary, nullable=False),
    Column("after_session", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("run_id", "number"),
)

gates = Table(
    "gates",
    metadata,
    Column("run_id", String(14), nullable=False),
    Column("outcome", Integer, nullable=False),
    Column("gate", String(64), nullable=False),
    Column("applicability", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("validator_version", String(64), nullable=False),
    PrimaryKeyConstraint("run_id", "outcome", "gate"),
    ForeignKeyConstraint(["run_id", "outcome"], ["outcomes.run_id", "outcomes.number"]),
)

judgment_cache = Table(
    "judgment_cache",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("input_sha256", String(64), nullable=False),
    Column("validator_version", String(64), nullable=False),
    Column("made_at", Instant, nullable=False),
    Column("judgment", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "input_sha256", "validator_version"),
)

hooks = Table(
    "hooks",
    metadata,
    Column("id", String(15), primary_key=True),
    Column("kind", String(16), CheckConstraint("kind IN ('webhook', 'slack')"), nullable=False),
    Column("url", Words, nullable=False),
    Column("secret_ref", Words),
    Column("events", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("removed_at", Instant),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("hook_id", ForeignKey("hooks.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("run_id", ForeignKey("runs.id"), nullable=False, index=True),
    Column("event", Words, nullable=False),
    Column("at", Instant, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column(
        "status",
        String(16),
        CheckConstraint("status IN ('pending', 'delivered', 'failed')"),
        nullable=False,
        index=True,
    ),
    Column("detail", Words, nullable=False),
    PrimaryKeyConstraint("hook_id", "number"),
)

BLOB_COLUMNS = (evidence.c.sha256, sessions.c.brief_sha256)
"""Every column that names bytes of the evidence store; what none of them names may be removed."""
CACHES = (judgment_cache,)
"""Tables that can be made anew from the others."""


def blobs_named(connection: Connection) -> set[str]:
    """The bytes that any row names."""
    named = {digest for column in BLOB_COLUMNS for digest in connection.execute(select(column).distinct()).scalars()}
    return named - {None}
