"""Tokens, of which the secrets are not kept, and the log of what was done with them (R-241)."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select, update

from research_exchange.documents.json import JsonValue
from research_exchange.store import tables
from research_exchange.store.records import AuditRecord, Role, TokenRecord
from research_exchange.store.rows.transaction import Transaction, digest, fields


class TokenReader(Transaction):
    def any_token(self, secret: str) -> TokenRecord | None:
        """The token with this secret, even one that ended or was revoked: `why_refused` says so."""
        row = self._one(select(tables.tokens).where(tables.tokens.c.sha256 == digest(secret.encode())))
        return None if row is None else _token(row)

    def token_with_id(self, token_id: str) -> TokenRecord | None:
        row = self._one(select(tables.tokens).where(tables.tokens.c.id == token_id))
        return None if row is None else _token(row)

    def tokens(self, limit: int, offset: int, run_id: str | None = None) -> list[TokenRecord]:
        """Newest first, those that are no good any more among them; of one run's runners where it is named."""
        kept = tables.tokens
        query = select(kept).order_by(kept.c.created_at.desc(), kept.c.id).limit(limit).offset(offset)
        if run_id is not None:
            query = query.where(kept.c.run_id == run_id)
        return [_token(row) for row in self._all(query)]

    def count_tokens(self, run_id: str | None = None) -> int:
        return self._count(tables.tokens, *([] if run_id is None else [tables.tokens.c.run_id == run_id]))

    def audit(self, limit: int, offset: int, subject: str | None = None) -> list[AuditRecord]:
        """Newest first; of one subject where it is named."""
        kept = tables.audit
        query = select(kept).order_by(kept.c.number.desc()).limit(limit).offset(offset)
        if subject is not None:
            query = query.where(kept.c.subject == subject)
        return [AuditRecord(**fields(row, detail=json.loads)) for row in self._all(query)]

    def count_audit(self, subject: str | None = None) -> int:
        return self._count(tables.audit, *([] if subject is None else [tables.audit.c.subject == subject]))


class TokenWriter(TokenReader):
    def add_token(
        self,
        secret: str,
        role: Role,
        name: str,
        at: datetime,
        run_id: str | None = None,
        expires_at: datetime | None = None,
    ) -> TokenRecord:
        """Keep a token by the SHA-256 of its secret, which also names it."""
        hashed = digest(secret.encode())
        token = TokenRecord(f"tok_{hashed[:10]}", role, name, run_id, at, expires_at)
        self._add(tables.tokens, **{**vars(token), "role": role.value, "sha256": hashed})
        return token

    def revoke_token(self, token_id: str, at: datetime) -> None:
        """From `at` on the token is no good; one that was revoked before stays revoked since then."""
        kept = tables.tokens
        revoked = update(kept).where(kept.c.id == token_id, kept.c.revoked_at.is_(None)).values(revoked_at=at)
        self._connection.execute(revoked)

    def revoke_runner_tokens(self, run_id: str, made_at: datetime, at: datetime) -> None:
        """From `at` on, no token is good that was made for the runners of this run at the moment `made_at`."""
        kept = tables.tokens
        made_then = (kept.c.run_id == run_id) & (kept.c.created_at == made_at)
        self._connection.execute(update(kept).where(made_then, kept.c.revoked_at.is_(None)).values(revoked_at=at))

    def add_audit(
        self, at: datetime, actor: str, action: str, subject: str, detail: Mapping[str, JsonValue] | None = None
    ) -> AuditRecord:
        number = self._last(tables.audit.c.number) + 1
        entry = AuditRecord(number, at, actor, action, subject, dict(detail or {}))
        self._add(tables.audit, **{**vars(entry), "detail": json.dumps(entry.detail)})
        return entry


def _token(row: Row[Any]) -> TokenRecord:
    return TokenRecord(**fields(row, left_out="sha256", role=Role))
