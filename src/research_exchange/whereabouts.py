"""Where an Exchange of this machine is: its data folder, the files in it that lead to it, and its usual address.

It stands apart from the server, so that a command that only asks an Exchange need not load one.
"""

import hmac
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

__all__ = [
    "ADMIN_TOKEN_FILE",
    "DEFAULT_HOST",
    "DEFAULT_PORT",
    "SERVER_FILE",
    "default_data_folder",
    "is_loopback",
    "proof",
]

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8300
SERVER_FILE = "server.json"
"""In the data folder, while a server serves it: its address, and a secret that it alone shares with its readers."""
ADMIN_TOKEN_FILE = "admin-token"
"""In the data folder: the administrator's token, readable by its owner alone."""


def default_data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$RX_DATA`, else `research-exchange` in the user's data folder."""
    if given := environment.get("RX_DATA"):
        return Path(given)
    home = environment.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "research-exchange"


def proof(secret: str, challenge: str) -> str:
    """What an Exchange answers to a challenge to show that it is the one that announced itself with this secret."""
    return hmac.new(secret.encode(), challenge.encode(), "sha256").hexdigest()


def is_loopback(host: str) -> bool:
    """Whether only this machine's own users reach a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
