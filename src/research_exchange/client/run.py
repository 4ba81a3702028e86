"""One run, in the hands of the script that executes it."""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research_exchange.client.connection import PATIENCE_SECONDS, Connection, Json, as_sentence
from research_exchange.client.errors import ExchangeError

__all__ = ["Evidence", "GateReading", "Run"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GateReading:
    """The Exchange's own reading of one gate, from what was posted so far."""

    gate: str
    status: str
    """passed, failed, unverified, not_applicable or unknown (R-010)."""
    reason: str
    problems: tuple[str, ...] = ()

    @property
    def may_go_on(self) -> bool:
        """Whether the script may do what this gate guards, such as full training (R-123)."""
        return self.status in {"passed", "not_applicable"}


@dataclass(frozen=True)
class Evidence:
    """A file that the Exchange retains; quote name and hash where a document refers to it."""

    name: str
    sha256: str


class Run:
    """One run, in the hands of the script that executes it."""

    def __init__(self, url: str, run_id: str, token: str | None = None, *, patience: float = PATIENCE_SECONDS) -> None:
        self.id = run_id
        self._http = Connection(url.rstrip("/"), token, patience)
        self._path = f"/api/runs/{run_id}"

    def __repr__(self) -> str:
        return f"Run({self.page!r})"

    @classmethod
    def from_env(cls, environment: Mapping[str, str] = os.environ) -> "Run":
        """The run that RX_URL, RX_RUN_ID and RX_RUN_TOKEN name; `rx run` sets them for the scripts it starts."""
        missing = [name for name in ("RX_URL", "RX_RUN_ID", "RX_RUN_TOKEN") if not environment.get(name)]
        if missing:
            raise ExchangeError(
                f"{' and '.join(missing)} not set, so this script has no run to report to; start it with `rx run SPEC`."
            )
        return cls(environment["RX_URL"], environment["RX_RUN_ID"], environment["RX_RUN_TOKEN"])

    @property
    def token(self) -> str | None:
        """The credential of this run; hand it to the script through its environment and nowhere else."""
        return self._http.token

    @property
    def page(self) -> str:
        """The address of the run's page."""
        return f"{self._http.url}/runs/{self.id}"

    def spec(self) -> Json:
        """The spec that this run is to execute."""
        document: Json = json.loads(self.spec_bytes())
        return document

    def spec_bytes(self) -> bytes:
        """The spec as the Exchange keeps it, byte for byte."""
        return self._http.send("GET", f"/api/specs/{self.record()['spec_id']}").content

    def record(self) -> Json:
        """What the Exchange has of this run: the state folded from its updates, its evidence, its recorded judgment."""
        return self._http.send_json("GET", self._path)

    def update(self, **fields: Any) -> int:
        """Post one structured output (R-060) and return its sequence number; `status` is "running" unless given."""
        answer = self._http.send_json("POST", f"{self._path}/updates", {"status": "running", **fields})
        for flag in answer.get("flags", ()):
            log.info("Update %s: %s", answer["sequence"], flag)
        sequence: int = answer["sequence"]
        return sequence

    def metric(self, **numbers: float) -> int:
        """Post scalar metrics; earlier values stay on record (R-065)."""
        return self.update(metrics=numbers)

    def arm(self, name: str, **metrics: float) -> int:
        """Post the metrics of an arm that is finished (R-066)."""
        return self.update(metrics={"arms": {name: metrics}}, completed_arms=[name])

    def evidence(self, name: str, kind: str, content: str | bytes | Path) -> Evidence:
        """Retain a file under a plain name (R-160 to R-169): text, bytes, or a path to read.

        Raises:
            ExchangeRefused: over a cap, a name taken by other bytes, or something that looks like a credential.
        """
        match content:
            case Path():
                raw = content.read_bytes()
            case str():
                raw = content.encode()
            case _:
                raw = content
        sha256 = hashlib.sha256(raw).hexdigest()
        self._http.send("POST", f"{self._path}/evidence", raw, params={"name": name, "kind": kind, "sha256": sha256})
        return Evidence(name, sha256)

    def judgment(self) -> Json:
        """The Exchange's reading of this run, recomputed now from everything posted."""
        return self._http.send_json("GET", f"{self._path}/judgment")

    def record_judgment(self) -> Json:
        """Recompute the judgment and put it on record."""
        return self._http.send_json("POST", f"{self._path}/judgment")

    def gate(self, name: str) -> GateReading:
        """The Exchange's reading of one gate, such as "activation_gate", from what was posted so far."""
        gates = self.judgment()["gates"]
        for gate in gates:
            if gate["gate"] == name:
                return GateReading(name, gate["status"], gate["reason"], tuple(map(as_sentence, gate["problems"])))
        raise ExchangeError(
            f"The Exchange judges no gate {name!r}; it knows {', '.join(gate['gate'] for gate in gates)}."
        )

    def finish(self, *, status: str = "succeeded", verdict: str = "inconclusive", **fields: Any) -> int:
        """Post the final update: the verdict, its `outcome_reason`, a `summary` of at most two sentences."""
        return self.update(status=status, verdict=verdict, **fields)

    def begin_session(self, *, runner: str = "script", profile: str | None = None) -> str:
        """Say that somebody starts to work on this run; the answer names the session.

        Args:
            runner: What kind of runner it is: local, agent, manual or script.
            profile: The service profile that its brief is written for, where it works from one.
        """
        body = {"runner": runner, **({} if profile is None else {"profile": profile})}
        session: str = self._http.send_json("POST", f"{self._path}/sessions", body)["session"]
        return session

    def beat(self, session: str) -> Json:
        """Say that a session goes on, without patience. The answer has `cancelled`, and then a `reason`."""
        return self._http.for_seconds(0).send_json("POST", f"{self._path}/sessions/{session}/beat")

    def brief(self, profile: str) -> str:
        """The brief of this run, as Markdown, for a service profile."""
        return self._http.send("GET", f"{self._path}/brief", params={"profile": profile}).text

    def end_session(self, session: str, *, exit_code: int | None, reason: str) -> None:
        """Say that the work is over. Without a final update before it, what is finished counts as partial (R-067)."""
        self._http.send_json("POST", f"{self._path}/sessions/{session}/end", {"exit_code": exit_code, "reason": reason})
