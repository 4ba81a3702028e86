"""One run, in the hands of the script that executes it."""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research_exchange.client.connection import PATIENCE_SECONDS, Connection, Json, as_sentence, encode
from research_exchange.client.errors import ExchangeError, ExchangeRefused, ExchangeUnreachable
from research_exchange.client.outbox import REPORT_PATIENCE_SECONDS, Outbox
from research_exchange.client.spool import SPOOL_FOLDER, Report, Spool
from research_exchange.deviations import CHANGES_HYPOTHESIS, FIELDS

__all__ = ["Evidence", "GateReading", "Run"]

GATE_PATIENCE_SECONDS = 3600.0
"""How long a script waits for the answers that it cannot go on without."""
NOT_TAKEN = "metric_updates_not_taken"
"""The metric of a final update that counts those that the run had no room for."""

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

    def __init__(
        self,
        url: str,
        run_id: str,
        token: str | None = None,
        *,
        patience: float = PATIENCE_SECONDS,
        spool: Path | None = None,
        report_patience: float = REPORT_PATIENCE_SECONDS,
    ) -> None:
        """A run to report to.

        Args:
            url: The address of the Exchange.
            run_id: `run_` and 10 hexadecimal digits.
            token: The run's own.
            patience: For how many seconds whatever needs an answer is asked again.
            spool: A folder for what is reported while the Exchange is away. Without one, reports wait as well.
            report_patience: For how many seconds a report is, before it goes into the spool.
        """
        self.id = run_id
        self._http = Connection(url.rstrip("/"), token, patience)
        self._path = f"/api/runs/{run_id}"
        self._outbox = Outbox(self._http, None if spool is None else Spool(spool / run_id), report_patience)
        self._deviations: list[Any] | None = None
        """As they were posted last; None where this script posted none."""

    def __repr__(self) -> str:
        return f"Run({self.page!r})"

    @classmethod
    def from_env(
        cls,
        environment: Mapping[str, str] = os.environ,
        *,
        patience: float = GATE_PATIENCE_SECONDS,
        report_patience: float = REPORT_PATIENCE_SECONDS,
    ) -> "Run":
        """The run that RX_URL, RX_RUN_ID and RX_RUN_TOKEN name; `rx run` sets them for the scripts it starts.

        What it reports while the Exchange is away is kept in `$RX_SPOOL`, else in the folder `spool` of `$RX_WORK`,
        else in `rx-spool` where the script runs. What an earlier session left there is sent first.
        """
        missing = [name for name in ("RX_URL", "RX_RUN_ID", "RX_RUN_TOKEN") if not environment.get(name)]
        if missing:
            raise ExchangeError(
                f"{' and '.join(missing)} not set, so this script has no run to report to; start it with `rx run SPEC`."
            )
        return cls(
            environment["RX_URL"],
            environment["RX_RUN_ID"],
            environment["RX_RUN_TOKEN"],
            patience=patience,
            spool=_spool_folder(environment),
            report_patience=report_patience,
        )

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
        """What the Exchange has of this run: the state folded from its updates, its evidence, its recorded judgment.

        In `updates` are the newest, 50 at most, of `updates_total`; `Exchange.updates` has them all, page by page.
        """
        self._outbox.settle()
        return self._http.send_json("GET", self._path)

    def reported(self, part: str) -> Iterator[Any]:
        """What the updates of this run report under one name, such as "evidence", the newest first."""
        for number in reversed(self.record()["state"]["posted"].get(part, ())):
            yield self._http.send_json("GET", f"{self._path}/updates/{number}")[part]

    def update(self, **fields: Any) -> int | None:
        """Post one structured output (R-060); `status` is "running" unless given.

        Returns:
            Its sequence number; None where it waits in the spool until the Exchange answers again.

        Raises:
            ExchangeRefused: the run has as many updates as a run may have (R-240), or the token is no good.
        """
        return self._update(fields)

    def _update(self, fields: Mapping[str, Any], *, is_metrics: bool = False) -> int | None:
        if isinstance(stated := fields.get("deviations"), list):
            self._deviations = stated
        body = encode({"status": "running", **fields})
        answer = self._outbox.post(Report(self.id, body, is_metrics=is_metrics))
        if answer is None:
            return None
        for flag in answer.get("flags", ()):
            log.warning("Update %s: %s", answer["sequence"], flag)
        sequence: int = answer["sequence"]
        return sequence

    def metric(self, **numbers: float) -> int | None:
        """Post scalar metrics; earlier values stay on record (R-065).

        A script that did nothing wrong does not end for want of room: metrics beyond what a run may have (R-240) are
        kept in `metrics-not-taken.jsonl` beside the spool, the log says so once, and `finish` says how many.

        Returns:
            The update's number; None where it waits in the spool, or where the run has no room for it.
        """
        return self._update({"metrics": numbers}, is_metrics=True)

    def arm(self, name: str, **metrics: float) -> int | None:
        """Post the metrics of an arm that is finished (R-066)."""
        return self.update(metrics={"arms": {name: metrics}}, completed_arms=[name])

    def deviation(
        self, field: str, *, original: object, effective: object, reason: str, tested_instead: str | None = None
    ) -> int | None:
        """State before training what is done otherwise than the spec says (R-075, R-076).

        Those stated before stay stated along with it (R-077). One that comes after an arm was completed goes on record
        as late, and this says so on the log.

        Args:
            field: What is changed: model, objective, effective_batch, steps, dataset, evaluator or endpoint.
            original: What the spec says.
            effective: What is done.
            reason: Why.
            tested_instead: The question that the run answers now; needed for another objective or endpoint, which
                change the hypothesis (R-078).

        Raises:
            ValueError: something is missing or is not a field.
        """
        stated = {"field": field, "original": str(original), "effective": str(effective), "reason": reason}
        _check_deviation(stated, tested_instead)
        instead = {"original_hypothesis_tested": False, "tested_instead": tested_instead} if tested_instead else {}
        sequence = self.update(deviations=[*self._stated_deviations(), stated], **instead)
        self._complain_if_late(field)
        return sequence

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
        self._outbox.post(Report(self.id, raw, {"name": name, "kind": kind, "sha256": sha256}))
        return Evidence(name, sha256)

    def judgment(self) -> Json:
        """The Exchange's reading of this run, recomputed now from everything posted."""
        self._outbox.settle()
        return self._http.send_json("GET", f"{self._path}/judgment")

    def record_judgment(self) -> Json:
        """Recompute the judgment and put it on record."""
        self._outbox.settle()
        return self._http.send_json("POST", f"{self._path}/judgment")

    def gate(self, name: str) -> GateReading:
        """The Exchange's reading of one gate, such as "activation_gate", from everything that was posted so far.

        Nobody but the Exchange can let a script go on, so this waits for it, also while it is away.
        """
        gates = self.judgment()["gates"]
        for gate in gates:
            if gate["gate"] == name:
                return GateReading(name, gate["status"], gate["reason"], tuple(map(as_sentence, gate["problems"])))
        raise ExchangeError(
            f"The Exchange judges no gate {name!r}; it knows {', '.join(gate['gate'] for gate in gates)}."
        )

    def finish(self, *, status: str = "succeeded", verdict: str = "inconclusive", **fields: Any) -> int | None:
        """Post the final update: the verdict, its `outcome_reason`, a `summary` of at most two sentences.

        It waits for an Exchange that is away. Where it waits in vain, everything stays in the spool, and the log says
        how to send it. Updates of metrics that the run had no room for are counted in the metric
        `metric_updates_not_taken`.
        """
        if self._deviations is not None:
            fields.setdefault("deviations", self._deviations)
        self._outbox.settle_if_it_answers()
        if not_taken := self._outbox.count_not_taken():
            fields["metrics"] = {**(fields.get("metrics") or {}), NOT_TAKEN: not_taken}
        sequence = self.update(status=status, verdict=verdict, **fields)
        self._outbox.settle_or_say(self._http.patience)
        return sequence

    def send_spool(self, folder: Path) -> list[ExchangeRefused]:
        """Post what a script of this run, which is gone, left in its spool folder. Returns what was refused.

        Raises:
            ExchangeUnreachable: no Exchange answers, or the script still sends; what is left stays in the folder.
        """
        spool = Spool(folder / self.id)
        return spool.send(self._http) if spool.waiting() else []

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

    def _stated_deviations(self) -> list[Any]:
        """Those on record, also from an earlier session of the run."""
        if self._deviations is None and (record := self._record_at_hand()):
            posted = record["state"]["posted"].get("deviations", ())
            last = self._http.send_json("GET", f"{self._path}/updates/{posted[-1]}") if posted else {}
            stated = last.get("deviations")
            self._deviations = stated if isinstance(stated, list) else []
        return self._deviations or []

    def _complain_if_late(self, field: str) -> None:
        """A script should hear of it while it can still stop."""
        record = self._record_at_hand()
        if record and (completed := list(record["state"]["completed_arms"])):
            log.warning(
                "The deviation in %s is stated after %s was completed, so it counts as late; "
                "state it before any arm is trained (R-076).",
                field,
                " and ".join(completed),
            )

    def _record_at_hand(self) -> Json | None:
        """The record, where there is no need to wait for it."""
        try:
            self._outbox.settle(0)
            return self._http.for_seconds(0).send_json("GET", self._path)
        except ExchangeUnreachable:
            return None


def _spool_folder(environment: Mapping[str, str]) -> Path:
    if given := environment.get("RX_SPOOL"):
        return Path(given)
    work = environment.get("RX_WORK")
    return Path(work) / SPOOL_FOLDER if work else Path("rx-spool")


def _check_deviation(stated: Mapping[str, str], tested_instead: str | None) -> None:
    """Raises ValueError, in one sentence, for what the Exchange would flag."""
    if stated["field"] not in FIELDS:
        raise ValueError(f"A deviation is in one of {', '.join(FIELDS)}; found {stated['field']!r} (R-075).")
    if empty := [name for name, text in stated.items() if not text.strip()]:
        raise ValueError(f"A deviation needs {' and '.join(empty)}; nothing was given (R-075).")
    if stated["original"] == stated["effective"]:
        raise ValueError(f"A deviation in {stated['field']} from {stated['original']} to the same is none (R-075).")
    if stated["field"] in CHANGES_HYPOTHESIS and not tested_instead:
        raise ValueError(f"Another {stated['field']} tests another hypothesis; say which in tested_instead (R-078).")
