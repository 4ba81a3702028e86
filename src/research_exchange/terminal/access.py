"""Tokens and the audit log in a terminal."""

from rich.console import RenderableType
from rich.text import Text

from research_exchange.terminal.words import Json, literal, paged, table, when


def tokens_table(page: Json) -> RenderableType:
    """The tokens on a page of them."""
    rows = [(token["id"], token["role"], token["name"], _standing(token)) for token in page["tokens"]]
    drawn = table(("token", "role", "for", "good"), rows, whole=("token", "role", "good"))
    return paged(drawn, page, "tokens")


def revoked_line(token: Json) -> Text:
    """What is not good any more."""
    return literal(f"{token['id']}, {token['role']} for {token['name']}, is revoked since {when(token['revoked_at'])}.")


def audit_table(page: Json) -> RenderableType:
    """The entries on a page of the audit log."""
    rows = [(when(entry["at"]), entry["actor"], entry["action"], _about(entry)) for entry in page["audit"]]
    return paged(table(("at", "by", "did", "to"), rows, whole=("at", "by", "did")), page, "audit")


def _standing(token: Json) -> Text:
    if token["revoked_at"]:
        return literal(f"revoked {when(token['revoked_at'])}", "dim")
    return literal(f"until {when(token['expires_at'])}" if token["expires_at"] else "until revoked")


def _about(entry: Json) -> str:
    details = ", ".join(
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in entry["detail"].items()
        if value not in (None, "", [])
    )
    return f"{entry['subject']} ({details})" if details else str(entry["subject"])
