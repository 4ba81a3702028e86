"""A Research Exchange, in the hands of whoever registers specs, starts runs and reads them."""

from research_exchange.client.connection import PATIENCE_SECONDS, Connection, Json
from research_exchange.client.run import Run

__all__ = ["Exchange"]


class Exchange:
    """A Research Exchange, in the hands of whoever registers specs, starts runs and reads them."""

    def __init__(self, url: str, token: str | None = None, *, patience: float = PATIENCE_SECONDS) -> None:
        self.url = url.rstrip("/")
        self.patience = patience
        self._http = Connection(self.url, token, patience)

    def __repr__(self) -> str:
        return f"Exchange({self.url!r})"

    def answers(self) -> bool:
        """Whether it is up right now."""
        return self._http.is_up()

    def register(self, raw_spec: bytes, *, legacy: bool = False) -> str:
        """Save a spec as an immutable version and return its id; the same bytes have the same id.

        `legacy` admits one that lint finds errors in, such as one written before features were declared (R-026).
        """
        params = {"legacy": "true"} if legacy else {}
        spec_id: str = self._http.send("POST", "/api/specs", raw_spec, params=params).json()["id"]
        return spec_id

    def create_run(self, spec_id: str, *, redo_of: str | None = None, queue: bool = False) -> Run:
        """A new run of a saved spec, with the token that its script will report with.

        Args:
            spec_id: Of the version.
            redo_of: The earlier run of the same version that this one repeats (R-006).
            queue: Whether it waits for a worker.
        """
        body = {"spec_id": spec_id, "launch_mode": "ordinary" if redo_of is None else "redo"}
        asked: Json = {"redo_of": redo_of} if redo_of else {}
        if queue:
            asked["queue"] = True
        created = self._http.send_json("POST", "/api/runs", {**body, **asked})
        return Run(self.url, created["id"], created["token"], patience=self.patience)

    def resume(self, run_id: str) -> Run:
        """An existing run with a fresh token for its runner."""
        token = self._http.send_json("POST", f"/api/runs/{run_id}/token")["token"]
        return Run(self.url, run_id, token, patience=self.patience)

    def cancel(self, run_id: str, reason: str) -> None:
        """End a run: its runner stops at its next sign of life, and what is finished counts as a partial result."""
        self._http.send_json("POST", f"/api/runs/{run_id}/cancel", {"reason": reason})

    def requeue(self, run_id: str, reason: str) -> None:
        """Let a run that capacity stopped wait for a worker (R-202)."""
        self._http.send_json("POST", f"/api/runs/{run_id}/requeue", {"reason": reason})

    def queue(self) -> list[Json]:
        """The runs that wait for a worker, the next one first, each with why it waits."""
        waiting: list[Json] = self._http.send_json("GET", "/api/queue")["queue"]
        return waiting

    def claim(self) -> Run | None:
        """The next run that is due, for the worker that asks; None where none is."""
        claimed = self._http.send_json("POST", "/api/queue/claim")
        if claimed["run"] is None:
            return None
        return Run(self.url, claimed["run"], claimed["token"], patience=self.patience)

    def agreement(self, run_id: str) -> Json:
        """How a run and the others of its version agree (R-006)."""
        return self._http.send_json("GET", f"/api/runs/{run_id}/agreement")

    def run(self, run_id: str) -> Run:
        """An existing run, to read and to judge."""
        return Run(self.url, run_id, self._http.token, patience=self.patience)

    def runs(self, *, limit: int = 50, spec_id: str | None = None) -> list[Json]:
        """The newest runs, of one spec version or of all, one short record each."""
        params = {"limit": str(limit), **({"spec": spec_id} if spec_id else {})}
        listed: list[Json] = self._http.send_json("GET", "/api/runs", params=params)["runs"]
        return listed

    def spec_bytes(self, spec_id: str) -> bytes:
        """A spec version, byte for byte as it was registered."""
        return self._http.send("GET", f"/api/specs/{spec_id}").content

    def bundle(self, run_id: str) -> bytes:
        """Everything that the judgment of a run is made from, as one zip file; `rx verify` checks it anywhere."""
        return self._http.send("GET", f"/api/runs/{run_id}/bundle").content

    def posted(self, run_id: str, sequence: int) -> bytes:
        """The bytes of one update as they were posted."""
        return self._http.send("GET", f"/api/runs/{run_id}/updates/{sequence}").content
