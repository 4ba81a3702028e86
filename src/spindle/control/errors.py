"""Why a request is refused at once, instead of by a failed promise. Each text is one sentence for the user."""


class NotFoundError(Exception):
    """The thing asked about does not exist here (HTTP 404)."""


class GoneError(Exception):
    """The session has ended or was never here (HTTP 410)."""
