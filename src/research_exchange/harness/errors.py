"""What keeps a preflight from measuring."""

__all__ = ["HarnessError"]


class HarnessError(Exception):
    """A service, a file or the environment is not as a measurement needs it; the text is one sentence for a person."""
