"""Promises."""

from pydantic import Field

from spindle.wire.requests.body import Body, Whole


class PromiseAddress(Body):
    request_id: str


class FuturesTarget(Body):
    sampling_session_id: str
    cloned_sampler_id: Whole = 0


class RetrieveFutures(Body):
    target: FuturesTarget
    prev_cursor: Whole = 0
    timeout: float | None = Field(default=None, allow_inf_nan=False)
    """Seconds; None for as long as the server likes."""
    retrieved_request_ids: list[str] = Field(default_factory=list)
