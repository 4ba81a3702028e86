"""Giving tokens out and taking them back (R-241)."""

from dataclasses import dataclass
from datetime import timedelta

from research_exchange.server.access import Caller
from research_exchange.server.errors import ApiError, unknown_run
from research_exchange.server.launching import TOKEN_LIFE
from research_exchange.store import Clock, Identifiers, Role, Store, TokenRecord

MAX_DAYS = 3650


@dataclass(frozen=True)
class NewToken:
    record: TokenRecord
    secret: str
    """This is the only time that anybody sees it."""


class Tokens:
    """The tokens of people and programs."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    def give(
        self, role: Role, name: str, who: Caller, *, run_id: str | None = None, days: int | None = None
    ) -> NewToken:
        """Make a token.

        Args:
            role: What its holder may do.
            name: Whom or what it is for.
            who: Who gives it out.
            run_id: The one run of a runner; a runner has one, nobody else does.
            days: How long it is good; by default as long as a run's first token for a runner, and until it is revoked
                for others.

        Raises:
            ApiError: 422 for a runner without a run or a run without a runner, 404 for an unknown run.
        """
        if (role is Role.RUNNER) != (run_id is not None):
            raise ApiError(
                422, "A runner's token is for one run, and no other token is: give `run` with that role alone."
            )
        if not name.strip():
            raise ApiError(422, "A token has a name, which says whom or what it is for.")
        lasts = timedelta(days=days) if days is not None else TOKEN_LIFE if role is Role.RUNNER else None
        secret = self._ids.runner_token() if role is Role.RUNNER else self._ids.access_token()
        with self._store.writing() as writer:
            if run_id is not None and writer.run(run_id) is None:
                raise unknown_run(run_id)
            now = self._clock()
            ends = None if lasts is None else now + lasts
            record = writer.add_token(secret, role, name.strip(), now, run_id=run_id, expires_at=ends)
            detail = {"role": role.value, "name": record.name, "run": run_id}
            writer.add_audit(now, who.actor, "token.give", record.id, detail)
            return NewToken(record, secret)

    def revoke(self, token_id: str, who: Caller) -> TokenRecord:
        """From now on the token is no good, and neither are the browsers that came in with it."""
        with self._store.writing() as writer:
            if writer.token_with_id(token_id) is None:
                raise ApiError(404, f"No token {token_id!r} is known here; GET /api/tokens lists those that are.")
            now = self._clock()
            writer.revoke_token(token_id, now)
            writer.add_audit(now, who.actor, "token.revoke", token_id)
            revoked = writer.token_with_id(token_id)
        assert revoked is not None, "tokens are never deleted"
        return revoked

    def page(self, limit: int, offset: int, run_id: str | None = None) -> tuple[list[TokenRecord], int]:
        """Newest first, and how many there are in all."""
        with self._store.reading() as reader:
            return reader.tokens(limit, offset, run_id), reader.count_tokens(run_id)
