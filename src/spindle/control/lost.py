"""What to say when something asked about is not in memory: what happened, and how to go on."""

from dataclasses import dataclass
from datetime import datetime

from spindle.backends.contract import UserError
from spindle.control.catalogue import Catalogue
from spindle.control.paths import RUN
from spindle.control.promises import LostError
from spindle.control.sessions import Sessions


@dataclass(frozen=True)
class Lost:
    """Tells a restart of the server from a session that ended."""

    sessions: Sessions
    catalogue: Catalogue
    started_at: datetime

    def model(self, model_id: str) -> UserError | LostError:
        """Why a training run is not here."""
        return self._explain(f"training run {model_id}", session_of(model_id), model_id, "its session ended")

    def sampler(self, sampler_id: str) -> UserError | LostError:
        """Why a sampling session is not here."""
        reason = "its session ended, or it idled while many newer snapshots of its training run were made"
        return self._explain(f"sampling session {sampler_id}", session_of(sampler_id), None, reason)

    def session(self, session_id: str) -> UserError | LostError:
        """Why a session is not here."""
        return self._explain(f"session {session_id}", session_id, None, "it ended")

    def promise(self, request_id: str) -> UserError | LostError:
        """Why a promise is not here."""
        model_id = request_id.rpartition(":")[0]
        reason = "its session ended, or its result was fetched a while ago"
        return self._explain(f"request {request_id}", session_of(request_id), model_id, reason)

    def _explain(self, what: str, session_id: str, model_id: str | None, reason: str) -> UserError | LostError:
        if self.sessions.was_here(session_id):
            return UserError(f"Spindle no longer holds {what}: {reason}; {self._advice(model_id)}.")
        since = self.started_at.strftime("%Y-%m-%d %H:%M:%S UTC")
        return LostError(
            f"Spindle was restarted (it runs since {since}) and {what} was lost from its memory; "
            f"{self._advice(model_id)}."
        )

    def _advice(self, model_id: str | None) -> str:
        if model_id is None or not RUN.fullmatch(model_id):
            return "create a new ServiceClient and continue from saved checkpoints"
        state = self.catalogue.last_state(model_id)
        if state is None:
            return "this training run has no saved state, so start it again with a new ServiceClient"
        return (
            "continue from its last checkpoint with a new ServiceClient and "
            f"create_training_client_from_state_with_optimizer({str(state.path)!r})"
        )


def session_of(identifier: str) -> str:
    """The session at the front of a model, sampling session or request id."""
    return identifier.partition(":")[0]
