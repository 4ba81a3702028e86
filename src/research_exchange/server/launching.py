"""Starting runs: a new one of a spec version, a redo of an earlier one, a fresh token for a runner (R-004 to R-006)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from research_exchange.server.errors import ApiError, unknown_run, unknown_spec
from research_exchange.store import Clock, Identifiers, LaunchMode, Role, Store, Writer

TOKEN_LIFE = timedelta(days=7)
"""How long a runner's token is good (R-241)."""
NEW_IN_QUEUE = "It was queued when it was created."


@dataclass(frozen=True)
class Launched:
    """A run with a token for its runner."""

    id: str
    spec_id: str
    token: str
    """The runner's secret; this is the only time that anybody sees it."""


class Launching:
    """New runs, and tokens for those who execute them."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    def create(
        self, spec_id: str, launch_mode: LaunchMode, by: str, redo_of: str | None = None, *, queue: bool = False
    ) -> Launched:
        """A new run; with `queue`, a worker takes it in its turn.

        Raises:
            ApiError: 404 for a spec or an earlier run that is not known, 422 where the earlier run had another spec.
        """
        launched = Launched(self._ids.run(), spec_id, self._ids.runner_token())
        with self._store.writing() as writer:
            if writer.spec(spec_id) is None:
                raise unknown_spec(spec_id)
            if redo_of is not None:
                launch_mode = LaunchMode.REDO
                _require_same_spec(writer, redo_of, spec_id)
            at = self._clock()
            expires = at + TOKEN_LIFE
            writer.add_run(launched.id, spec_id, launch_mode, launched.token, at, redo_of=redo_of, expires_at=expires)
            if queue:
                writer.enqueue(launched.id, at, NEW_IN_QUEUE, by)
            detail = {"spec_id": spec_id, "launch_mode": launch_mode.value, "redo_of": redo_of, "queued": queue}
            writer.add_audit(at, by, "run.create", launched.id, detail)
        return launched

    def token(self, run_id: str, by: str) -> Launched:
        """Another token for a run: whoever resumes it has lost the first one, or it has ended."""
        with self._store.writing() as writer:
            run = writer.run(run_id)
            if run is None:
                raise unknown_run(run_id)
            launched = Launched(run.id, run.spec_id, self._ids.runner_token())
            give_token(writer, launched, self._clock(), by)
        return launched


def give_token(writer: Writer, launched: Launched, at: datetime, by: str) -> None:
    token = writer.add_token(launched.token, Role.RUNNER, launched.id, at, launched.id, at + TOKEN_LIFE)
    writer.add_audit(at, by, "run.token", launched.id, {"token": token.id})


def _require_same_spec(writer: Writer, redo_of: str, spec_id: str) -> None:
    """A redo executes the very version that the earlier run did (R-006)."""
    earlier = writer.run(redo_of)
    if earlier is None:
        raise unknown_run(redo_of)
    if earlier.spec_id != spec_id:
        raise ApiError(
            422,
            f"A redo of {redo_of} executes its spec {earlier.spec_id}; found {spec_id}. "
            "Start an ordinary run for another spec.",
        )
