"""The tables. Everything but `tokens` is append-only; the first migration puts triggers behind that."""

from datetime import UTC, datetime

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
)


class Instant(TypeDecorator[datetime]):
    """An aware moment, kept and given back in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a stored time must say its zone, found {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


metadata = MetaData()

specs = Table(
    "specs",
    metadata,
    Column("id", String(14), primary_key=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("raw", LargeBinary, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(14), primary_key=True),
    Column("spec_id", ForeignKey("specs.id"), nullable=False, index=True),
    Column("launch_mode", String(16), CheckConstraint("launch_mode IN ('ordinary', 'redo')"), nullable=False),
    Column("created_at", Instant, nullable=False, index=True),
)

tokens = Table(
    "tokens",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False, index=True),
    Column("created_at", Instant, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(14), primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False, index=True),
    Column("started_at", Instant, nullable=False),
)

session_ends = Table(
    "session_ends",
    metadata,
    Column("session_id", ForeignKey("sessions.id"), primary_key=True),
    Column("ended_at", Instant, nullable=False),
    Column("exit_code", Integer),
    Column("reason", Text, nullable=False),
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
    PrimaryKeyConstraint("run_id", "sequence"),
)

evidence = Table(
    "evidence",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("name", Text, nullable=False),
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

refusals = Table(
    "refusals",
    metadata,
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("problems", Text, nullable=False),
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
    Column("cause", Text, nullable=False),
    Column("validator_version", String(64), nullable=False),
    Column("judgment", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
)
