"""What a script uses to report to a Research Exchange, and what a runner uses to register specs and start runs.

    from research_exchange.client import Run

    run = Run.from_env()
    run.metric(step=1, reward=0.25)
    run.evidence("train.py", "script", Path(__file__))
    if run.gate("activation_gate").may_go_on:
        ...
    run.finish(verdict="supported", outcome_reason="supported", summary="...")

Every call waits until the Exchange has acknowledged it. An Exchange that is away, busy or restarting is asked again
with growing pauses for minutes; sending the same update or file twice is harmless, so nothing acknowledged is lost and
nothing is recorded twice. httpx and the standard library are all it needs. Tokens are sent, never printed.
"""

import atexit
import functools
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

__all__ = ["Evidence", "Exchange", "ExchangeError", "ExchangeRefused", "ExchangeUnreachable", "GateReading", "Run"]

PATIENCE_SECONDS = 300.0
"""How long a call goes on asking an Exchange that does not answer."""
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
REQUEST_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
KEPT_ALIVE_SECONDS = 3.0
"""Shorter than a server keeps an idle connection (5 s), so that none is used while it closes."""

Json = dict[str, Any]

log = logging.getLogger(__name__)


class ExchangeError(Exception):
    """Something between this script and the Exchange went wrong; the text is one sentence for a person."""


class ExchangeUnreachable(ExchangeError):
    """The Exchange did not answer within the time allowed."""


class ExchangeRefused(ExchangeError):
    """The Exchange understood and said no; asking again would not help."""

    def __init__(self, sentence: str, *, status: int, problems: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        """The HTTP status."""
        self.problems = tuple(problems)
        """Each a sentence: the rule, where, expected, found, and what to do."""


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


@dataclass(frozen=True)
class _Connection:
    """Requests with patience."""

    url: str
    token: str | None = field(repr=False)
    patience: float = PATIENCE_SECONDS

    def send(self, method: str, path: str, content: bytes | None = None, **params: str) -> httpx.Response:
        """The first answer that is not "try again".

        Raises:
            ExchangeRefused: the answer is a 4xx.
            ExchangeUnreachable: no answer within `patience` seconds.
        """
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        started, pause = time.monotonic(), FIRST_PAUSE_SECONDS
        while True:
            try:
                response = _http().request(method, self.url + path, content=content, params=params, headers=headers)
            except httpx.TransportError as error:
                trouble = type(error).__name__
            else:
                if response.status_code != 429 and response.status_code < 500:
                    return _accepted(response)
                trouble = f"HTTP {response.status_code}"
            waited = time.monotonic() - started
            if waited + pause > self.patience:
                raise ExchangeUnreachable(
                    f"No Exchange answers at {self.url} ({trouble}; asked for {waited:.0f} s). "
                    "Start one with `rx serve`."
                )
            if pause == FIRST_PAUSE_SECONDS:
                log.warning("The Exchange at %s does not answer (%s); asking again.", self.url, trouble)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def send_json(self, method: str, path: str, body: Mapping[str, Any] | None = None, **params: str) -> Json:
        content = None if body is None else _encode(body)
        answer: Json = self.send(method, path, content, **params).json()
        return answer


class Run:
    """One run, in the hands of the script that executes it."""

    def __init__(self, url: str, run_id: str, token: str | None = None, *, patience: float = PATIENCE_SECONDS) -> None:
        self.id = run_id
        self._http = _Connection(url.rstrip("/"), token, patience)
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
        self._http.send("POST", f"{self._path}/evidence", raw, name=name, kind=kind, sha256=sha256)
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
                return GateReading(name, gate["status"], gate["reason"], tuple(map(_sentence, gate["problems"])))
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
        return replace(self._http, patience=0.0).send_json("POST", f"{self._path}/sessions/{session}/beat")

    def brief(self, profile: str) -> str:
        """The brief of this run, as Markdown, for a service profile."""
        return self._http.send("GET", f"{self._path}/brief", profile=profile).text

    def end_session(self, session: str, *, exit_code: int | None, reason: str) -> None:
        """Say that the work is over. Without a final update before it, what is finished counts as partial (R-067)."""
        self._http.send_json("POST", f"{self._path}/sessions/{session}/end", {"exit_code": exit_code, "reason": reason})


class Exchange:
    """A Research Exchange, in the hands of whoever registers specs, starts runs and reads them."""

    def __init__(self, url: str, token: str | None = None, *, patience: float = PATIENCE_SECONDS) -> None:
        self.url = url.rstrip("/")
        self.patience = patience
        self._http = _Connection(self.url, token, patience)

    def __repr__(self) -> str:
        return f"Exchange({self.url!r})"

    def answers(self) -> bool:
        """Whether it is up right now."""
        try:
            return bool(_http().get(f"{self.url}/health", timeout=5.0).json()["status"] == "ok")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
            return False

    def register(self, raw_spec: bytes, *, legacy: bool = False) -> str:
        """Save a spec as an immutable version and return its id; the same bytes have the same id.

        `legacy` admits one that lint finds errors in, such as one written before features were declared (R-026).
        """
        params = {"legacy": "true"} if legacy else {}
        spec_id: str = self._http.send("POST", "/api/specs", raw_spec, **params).json()["id"]
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
        listed: list[Json] = self._http.send("GET", "/api/runs", None, **params).json()["runs"]
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


@functools.cache
def _http() -> httpx.Client:
    """The connections of this process, made once: reading the certificates alone takes a quarter of a second.

    What runs on this machine is reached directly, whatever proxy the environment names.
    """
    client = httpx.Client(
        timeout=REQUEST_TIMEOUT,
        limits=httpx.Limits(keepalive_expiry=KEPT_ALIVE_SECONDS),
        mounts={f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")},
    )
    atexit.register(client.close)
    return client


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    # A child that shared its parent's connections would read the parent's answers.
    os.register_at_fork(after_in_child=_http.cache_clear)


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except ValueError as error:
        raise ValueError(
            f"A metric or document value is not a finite number ({error}); leave out what was not measured (R-068)."
        ) from error


def _accepted(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        answer = response.json()
        sentence, problems = str(answer["error"]), [_sentence(problem) for problem in answer.get("problems") or ()]
    except (ValueError, KeyError, TypeError, AttributeError):
        sentence, problems = f"The Exchange answered HTTP {response.status_code} without saying why.", []
    raise ExchangeRefused(" ".join([sentence, *problems]), status=response.status_code, problems=problems)


def _sentence(problem: str | Mapping[str, Any]) -> str:
    """A problem as a sentence, whether it comes as one or with its parts beside it."""
    return problem if isinstance(problem, str) else str(problem["text"])
