"""Sessions."""

from spindle.wire.requests.body import Body


class SessionAddress(Body):
    session_id: str
