"""A Research Exchange, in the hands of whoever registers specs, starts runs and reads them."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from research_exchange.client.connection import PATIENCE_SECONDS, Connection, Json
from research_exchange.client.errors import ExchangeRefused, SpecRefused
from research_exchange.client.events import Event, follow
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

    @property
    def token(self) -> str | None:
        """What it is asked with."""
        return self._http.token

    def answers(self) -> bool:
        """Whether it is up right now."""
        return self._http.is_up()

    def proves(self, secret: str) -> bool:
        """Whether it is the one that announced itself with this secret, and not somebody who took its place."""
        return self._http.proves(secret)

    # --- Ideas and the versions made from them ---

    def ideas(self, *, limit: int = 50, offset: int = 0) -> Json:
        """A page of ideas, newest first: `{"ideas", "total", "next"}`."""
        return self._page("/api/ideas", limit, offset)

    def idea(self, idea_id: str) -> Json:
        """An idea with the newest of its snapshots and of the versions made from it, and how many there are of each.

        `snapshots` and `specs` have all of them, page by page.
        """
        return self._http.send_json("GET", f"/api/ideas/{idea_id}")

    def snapshots(self, idea_id: str, *, limit: int = 50, offset: int = 0) -> Json:
        """A page of what an idea said, oldest first: `{"snapshots", "total", "next"}`."""
        return self._page(f"/api/ideas/{idea_id}/snapshots", limit, offset)

    def add_idea(self, title: str, **texts: str) -> Json:
        """Save an idea: its title, and any of `summary`, `source_url` and `triage`."""
        return self._http.send_json("POST", "/api/ideas", {"title": title, **texts})

    def revise_idea(self, idea_id: str, **texts: str | None) -> Json:
        """Say an idea anew. What is left out stays as it is, and None empties it; earlier words stay on record."""
        return self._http.send_json("POST", f"/api/ideas/{idea_id}/snapshots", texts)

    def draft(self, idea_id: str) -> Json:
        """A spec to go on from, and what it still lacks: `{"idea", "spec", "lint"}`. Nothing is saved."""
        return self._http.send_json("POST", f"/api/ideas/{idea_id}/draft")

    def specs(self, *, limit: int = 50, offset: int = 0, idea_id: str | None = None) -> Json:
        """A page of spec versions, newest first: `{"specs", "total", "next"}`."""
        return self._page("/api/specs", limit, offset, idea=idea_id)

    def about_spec(self, spec_id: str) -> Json:
        """When a version was saved, from which idea and which version, and its hash."""
        return self._http.send_json("GET", f"/api/specs/{spec_id}/about")

    def lint(self, spec_id: str) -> list[Json]:
        """What lint finds in a version."""
        findings: list[Json] = self._http.send_json("GET", f"/api/specs/{spec_id}/lint")["findings"]
        return findings

    def brief(self, spec_id: str, *, run_id: str | None = None, profile: str = "spindle") -> Json:
        """The brief that a runner of a version gets: `{"spec_id", "run", "profile", "sha256", "brief"}`."""
        params = {"profile": profile, **({"run": run_id} if run_id else {})}
        return self._http.send_json("GET", f"/api/specs/{spec_id}/brief", params=params)

    def register(
        self, raw_spec: bytes, *, legacy: bool = False, idea_id: str | None = None, parent: str | None = None
    ) -> str:
        """Save a spec as an immutable version and return its id; the same bytes have the same id.

        Args:
            raw_spec: The spec, byte for byte as it is to be kept.
            legacy: Admits one that lint finds errors in, such as one written before features were declared (R-026).
            idea_id: The idea that it was made from.
            parent: The version that it was made from.

        Raises:
            SpecRefused: Lint finds errors in it.
        """
        named = {"idea": idea_id, "parent": parent, "legacy": "true" if legacy else None}
        params = {name: value for name, value in named.items() if value}
        try:
            spec_id: str = self._http.send("POST", "/api/specs", raw_spec, params=params).json()["id"]
        except ExchangeRefused as refused:
            if refused.status == 422 and refused.problems:
                raise SpecRefused(refused.sentence, status=422, problems=refused.problems) from None
            raise
        return spec_id

    # --- Runs ---

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

    def queue(self, *, limit: int = 50, offset: int = 0) -> Json:
        """A page of the runs that wait for a worker, the next one first, each with why it waits.

        `{"queue", "total", "next", "waiting_for_a_person"}`; the last are runs that a person has to decide about.
        """
        return self._page("/api/queue", limit, offset)

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

    def runs(
        self, *, limit: int = 50, offset: int = 0, spec_id: str | None = None, state: str | None = None
    ) -> list[Json]:
        """The newest runs, of one spec version or of all, in one state or in any, one short record each."""
        return list(self.runs_page(limit=limit, offset=offset, spec_id=spec_id, state=state)["runs"])

    def runs_page(
        self, *, limit: int = 50, offset: int = 0, spec_id: str | None = None, state: str | None = None
    ) -> Json:
        """The same with what else there is: `{"runs", "total", "next"}`."""
        return self._page("/api/runs", limit, offset, spec=spec_id, state=state)

    def spec_bytes(self, spec_id: str) -> bytes:
        """A spec version, byte for byte as it was registered."""
        return self._http.send("GET", f"/api/specs/{spec_id}").content

    def bundle(self, run_id: str) -> bytes:
        """Everything that the judgment of a run is made from, as one zip file; `rx verify` checks it anywhere."""
        return self._http.send("GET", f"/api/runs/{run_id}/bundle").content

    def updates(self, run_id: str, *, limit: int = 50, offset: int = 0) -> Json:
        """A page of a run's updates without their bytes, in order of receipt: `{"updates", "total", "next"}`."""
        return self._page(f"/api/runs/{run_id}/updates", limit, offset)

    def posted(self, run_id: str, sequence: int) -> bytes:
        """The bytes of one update as they were posted."""
        return self._http.send("GET", f"/api/runs/{run_id}/updates/{sequence}").content

    def file(self, run_id: str, name: str) -> bytes:
        """A file of evidence."""
        return self._http.send("GET", f"/api/runs/{run_id}/evidence/{quote(name, safe='')}").content

    def events(self, run_id: str, *, after: str | None = None) -> Iterator[Event]:
        """What happens to a run, while it happens, from its beginning or after an event; see `follow`."""
        return follow(self._http, f"/api/runs/{run_id}/events", after=after)

    # --- Who may do what, who is told, and who did what ---

    def tokens(self, *, limit: int = 50, offset: int = 0, run_id: str | None = None) -> Json:
        """A page of tokens, without their secrets: `{"tokens", "total", "next"}`."""
        return self._page("/api/tokens", limit, offset, run=run_id)

    def give_token(self, role: str, name: str, *, run_id: str | None = None, days: int | None = None) -> Json:
        """A new token. The answer holds the secret, in `token`; nobody can read it again."""
        asked = {"role": role, "name": name, "run": run_id, "days": days}
        return self._http.send_json(
            "POST", "/api/tokens", {name: value for name, value in asked.items() if value is not None}
        )

    def revoke_token(self, token_id: str) -> Json:
        """Make a token useless from now on."""
        return self._http.send_json("DELETE", f"/api/tokens/{token_id}")

    def hooks(self, *, limit: int = 50, offset: int = 0) -> Json:
        """A page of those whom the Exchange tells of what happens to runs: `{"hooks", "total", "next"}`."""
        return self._page("/api/hooks", limit, offset)

    def add_hook(
        self, kind: str, *, url: str | None = None, secret: str | None = None, events: Sequence[str] = ()
    ) -> Json:
        """A new hook.

        Args:
            kind: webhook, or slack.
            url: Where a webhook is told.
            secret: The environment variable of the server that holds the secret of a webhook.
            events: Of what it is told; of everything where there are none.
        """
        return self._http.send_json(
            "POST", "/api/hooks", {"kind": kind, "url": url, "secret": secret, "events": [*events]}
        )

    def remove_hook(self, hook_id: str) -> Json:
        """Tell nobody there any more."""
        return self._http.send_json("DELETE", f"/api/hooks/{hook_id}")

    def deliveries(self, hook_id: str, *, limit: int = 50, offset: int = 0) -> Json:
        """A page of what a hook was told or is to be told, newest first: `{"deliveries", "total", "next"}`."""
        return self._page(f"/api/hooks/{hook_id}/deliveries", limit, offset)

    def audit(self, *, limit: int = 50, offset: int = 0, subject: str | None = None) -> Json:
        """A page of who did what, newest first: `{"audit", "total", "next"}`."""
        return self._page("/api/audit", limit, offset, subject=subject)

    def _page(self, path: str, limit: int, offset: int, **wanted: str | None) -> Json:
        chosen = {name: value for name, value in wanted.items() if value is not None}
        return self._http.send_json("GET", path, params={"limit": str(limit), "offset": str(offset), **chosen})
