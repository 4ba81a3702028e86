"""What a server takes when nothing else is said."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8250
DEFAULT_GRACE = 60.0
"""Seconds that a running computation may take to end when the server stops."""
