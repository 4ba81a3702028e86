"""Why a request is refused at once, instead of by a failed promise. Each text is one sentence for the user."""


class NotFoundError(Exception):
    """The thing asked about does not exist here (HTTP 404)."""


class ForbiddenError(Exception):
    """A link that does not open anything, or no longer (HTTP 403)."""


class GoneError(Exception):
    """The session has ended or was never here (HTTP 410)."""


class BusyError(Exception):
    """A queue is full for now (HTTP 429): the same request may be sent again."""

    def __init__(self, sentence: str, limit: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.limit = limit
        """Which limit, by its name in the configuration."""
        self.retry_after = retry_after
        """Seconds."""


class FullError(BusyError):
    """The server holds as many of something as it may (HTTP 503); only the end of another one makes room."""
