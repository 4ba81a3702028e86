"""What keeps this machine from executing a run."""

__all__ = ["CannotExecute"]


class CannotExecute(Exception):
    """A run that cannot be executed here, or not now; the text is one sentence for a person."""
