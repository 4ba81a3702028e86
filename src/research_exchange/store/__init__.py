"""Where the Exchange keeps what it was told: append-only rows in a database, and evidence bytes by their content.

The database is SQLite or PostgreSQL, the bytes are in a folder or in S3.

`Store` opens both and hands out transactions: a `Reader` sees one consistent moment, a `Writer` adds rows and never
changes one. The tables come from the packaged Alembic migrations, which `Store.open` brings up to date.
"""

from research_exchange.documents.launch import LaunchMode
from research_exchange.store.blobs import (
    BlobStore,
    BlobTooLarge,
    FolderBlobs,
    Incoming,
    S3Blobs,
    StorageUnreachable,
    StoredBlob,
)
from research_exchange.store.database import BadDatabaseUrl
from research_exchange.store.identifiers import Clock, Identifiers, RandomIdentifiers, utc_now
from research_exchange.store.records import (
    ASKED_FOR,
    AuditRecord,
    Cancellation,
    DeliveryRecord,
    DeliveryStatus,
    EvidenceRecord,
    GateRecord,
    HookKind,
    HookRecord,
    IdeaRecord,
    OutcomeRecord,
    QueuedRun,
    QueueRecord,
    RefusalRecord,
    Role,
    RunnerKind,
    RunPhase,
    RunRecord,
    SessionEnd,
    SessionRecord,
    SnapshotRecord,
    SpecRecord,
    Standing,
    TokenRecord,
    UpdateHead,
)
from research_exchange.store.store import Store
from research_exchange.store.transactions import Reader, Writer

__all__ = [
    "ASKED_FOR",
    "AuditRecord",
    "BadDatabaseUrl",
    "BlobStore",
    "BlobTooLarge",
    "Cancellation",
    "Clock",
    "DeliveryRecord",
    "DeliveryStatus",
    "EvidenceRecord",
    "FolderBlobs",
    "GateRecord",
    "HookKind",
    "HookRecord",
    "IdeaRecord",
    "Identifiers",
    "Incoming",
    "LaunchMode",
    "OutcomeRecord",
    "QueueRecord",
    "QueuedRun",
    "RandomIdentifiers",
    "Reader",
    "RefusalRecord",
    "Role",
    "RunPhase",
    "RunRecord",
    "RunnerKind",
    "S3Blobs",
    "SessionEnd",
    "SessionRecord",
    "SnapshotRecord",
    "SpecRecord",
    "Standing",
    "StorageUnreachable",
    "Store",
    "StoredBlob",
    "TokenRecord",
    "UpdateHead",
    "Writer",
    "utc_now",
]
