"""What keeps this machine from executing a run."""

__all__ = ["CannotExecute", "ServiceError"]


class CannotExecute(Exception):
    """A run that cannot be executed here, or not now; the text is one sentence for a person."""


class ServiceError(Exception):
    """A service that cannot be reached or started; the text is one sentence for a person."""
