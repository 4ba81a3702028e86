"""What is asked of saved checkpoints."""

from pydantic import Field

from spindle.wire.requests.body import Body
from spindle.wire.requests.training import SaveWeights


class Ttl(Body):
    ttl_seconds: int | None
    """None keeps the checkpoint."""


class CopyWeights(Body):
    source_path: str
    destination_project_id: str | None = None
    session_id: str | None = None
    model_seq_id: int | None = Field(default=None, ge=0, lt=10**9)
    ttl_seconds: int | None = None


class SaveExternal(SaveWeights):
    age_encryption_recipients: list[str] | None = None
