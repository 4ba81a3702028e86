"""What a backup says of itself, and how its entries are named."""

from dataclasses import dataclass, field

FORMAT = 1
MANIFEST = "backup.json"


@dataclass(frozen=True)
class Manifest:
    """What is in a backup."""

    made_at: str
    """ISO 8601, UTC."""
    schema: str
    """The number of the schema that the rows are of."""
    made_by: str
    rows: dict[str, int]
    """How many of each table; in an order in which no row comes before one that it refers to."""
    columns: dict[str, dict[str, str]]
    """Of each table, which kind of value is in each column."""
    blobs: int
    lost: list[str] = field(default_factory=list)
    """Bytes that rows name and that were gone or damaged when the backup was made."""
    format: int = FORMAT


def rows_entry(table: str) -> str:
    return f"rows/{table}.jsonl"


def blob_entry(sha256: str) -> str:
    return f"blobs/{sha256}"
