"""Promises."""

from spindle.wire.requests.body import Body


class PromiseAddress(Body):
    request_id: str
