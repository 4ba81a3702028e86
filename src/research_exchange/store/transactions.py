"""What can be asked of the store and added to it, inside one transaction."""

from research_exchange.store.rows.attachments import AttachmentReader, AttachmentWriter
from research_exchange.store.rows.evidence import EvidenceReader, EvidenceWriter
from research_exchange.store.rows.hooks import HookReader, HookWriter
from research_exchange.store.rows.ideas import IdeaReader, IdeaWriter
from research_exchange.store.rows.outcomes import OutcomeReader, OutcomeWriter
from research_exchange.store.rows.queue import QueueReader, QueueWriter
from research_exchange.store.rows.runs import RunReader, RunWriter
from research_exchange.store.rows.sessions import SessionReader, SessionWriter
from research_exchange.store.rows.specs import SpecReader, SpecWriter
from research_exchange.store.rows.tokens import TokenReader, TokenWriter
from research_exchange.store.rows.updates import UpdateReader, UpdateWriter


class Reader(
    IdeaReader,
    SpecReader,
    QueueReader,
    RunReader,
    OutcomeReader,
    SessionReader,
    UpdateReader,
    EvidenceReader,
    AttachmentReader,
    TokenReader,
    HookReader,
):
    """Questions about one consistent moment of the store."""


class Writer(
    Reader,
    IdeaWriter,
    SpecWriter,
    QueueWriter,
    RunWriter,
    OutcomeWriter,
    SessionWriter,
    UpdateWriter,
    EvidenceWriter,
    AttachmentWriter,
    TokenWriter,
    HookWriter,
):
    """Adds rows; it holds the write lock, so what it has read is still so when it writes."""
