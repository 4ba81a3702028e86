"""The page on sharing an Exchange names every variable there is, no command that is not, and a check that works."""

import hashlib
import hmac
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from research_exchange.cli.app import app
from research_exchange.server import notifications
from research_exchange.server.door import PER_CALLER
from research_exchange.server.launching import TOKEN_LIFE
from research_exchange.server.ratelimit import Rate
from research_exchange.server.sign_in import SIGNED_IN_FOR
from research_exchange.store import Role

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "team.md").read_text()
SERVER = ROOT / "src" / "research_exchange" / "server"
_OF_OTHERS = {"RX_DATA", "RX_SILENT_AFTER", "RX_URL", "RX_TOKEN", "RX_HOOK_", "RX_HOOK_LAB"}
"""Explained on another page, not the server's to read, or only the beginning of a name."""


def test_the_page_names_every_variable_of_what_it_is_about() -> None:
    read = {name for path in SERVER.rglob("*.py") for name in re.findall(r'"(RX_[A-Z_]+)"', path.read_text())}
    named = set(re.findall(r"\bRX_[A-Z_]+\b", PAGE))
    assert read - _OF_OTHERS == named - _OF_OTHERS


def commands() -> list[str]:
    shown = re.findall(r"^ {4}(?:RX_\S+ )*(rx .*)$", PAGE, re.MULTILINE) + re.findall(r"`(rx [^`]+)`", PAGE)
    return sorted(set(shown))


@pytest.mark.parametrize("line", commands())
def test_the_page_names_commands_that_there_are(line: str) -> None:
    words = shlex.split(line)[1:]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_the_page_names_the_roles_and_the_times() -> None:
    assert set(re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE)) == {role.value for role in Role}
    assert TOKEN_LIFE.days == 7 and "for seven days" in PAGE
    assert SIGNED_IN_FOR.total_seconds() == 12 * 3600 and "twelve hours" in PAGE
    assert Rate(50, 500) == PER_CALLER and "Without it 50" in PAGE and "Ten times as many" in PAGE
    seconds = [int(pause.total_seconds()) for pause in notifications.PAUSES]
    assert seconds == [10, 30, 60, 300, 900, 3600, 3 * 3600, 6 * 3600]
    assert "after 10 and 30 seconds, 1, 5 and 15 minutes, and 1, 3 and 6 hours" in PAGE


def test_the_check_of_a_signature_on_the_page_tells_genuine_from_forged() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    now, body = str(int(time.time())), b'{"event": "run.ended"}'
    signed = f"t={now},v1={notifications.signature('secret', now, body)}"
    old = str(int(now) - 400)
    assert names["is_genuine"]("secret", signed, body)
    assert not names["is_genuine"]("another", signed, body)
    assert not names["is_genuine"]("secret", signed, body + b" ")
    assert not names["is_genuine"]("secret", f"t={old},v1={notifications.signature('secret', old, body)}", body)
    assert hmac.new(b"secret", f"{now}.".encode() + body, hashlib.sha256).hexdigest() in signed
