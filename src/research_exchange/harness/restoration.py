"""The restoration preflight: every arm is started from one saved adapter, and what that showed goes on record (§8).

    start = Restoration.begin(run, service, origin, batch)
    learner = start.arm("treatment", lambda: service.create_lora_training_client(..., optimizer=config).result())
    if start.publish().may_go_on: ...

Nothing here is taken from what was asked for: family and settings are the server's answers, the checkpoint is the one
that the answer to the load names, and whether the load brought the adapter back is seen in its downloaded bytes. A
client answers `get_info` out of its memory of the creation, so after the load the server is asked about a checkpoint
that is saved right then.
"""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tinker
from tinker.types import Datum, GetInfoResponse, LoadWeightsResponse, OptimParams, WeightsInfoResponse

from research_exchange.client import GateReading, Run
from research_exchange.correctness import ParityErrors, parity_errors
from research_exchange.harness.adapters import download_adapter
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.fixed_inputs import Exhibit, input_exhibit, output_exhibit
from research_exchange.harness.fixed_state import Accumulate
from research_exchange.harness.service import deprecated_on_purpose, rest_client

__all__ = ["Restoration", "report_restore", "restore_equivalence"]

_GATE = "restoration_preflight"


@dataclass
class Restoration:
    """One start for all arms, and the record of how each of them took it."""

    run: Run
    service: tinker.ServiceClient
    checkpoint: str
    """Where the shared start was saved, under a name that nothing else is saved under."""
    adapter_sha256: str
    """Of the adapter that was saved."""
    batch: Sequence[Datum]
    """What every arm computes before its first update; loss inputs as `cross_entropy` takes them."""
    equivalence: ParityErrors | None = None
    """What `restore_equivalence` measured, where the spec asks for it."""
    _entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def begin(
        cls, run: Run, service: tinker.ServiceClient, origin: tinker.TrainingClient, batch: Sequence[Datum]
    ) -> "Restoration":
        """Save the adapter of `origin` as the start of all arms, before it takes any step.

        Raises:
            HarnessError: `origin` has been trained, as far as the service counts its steps.
        """
        checkpoint = origin.save_state(f"start-{uuid.uuid4().hex}").result().path
        _refuse_trained(rest_client(service).get_weights_info_by_tinker_path(checkpoint).result(), "the shared start")
        start = cls(run, service, checkpoint, download_adapter(service, origin).sha256, batch)
        start._input.retain(run, "provenance")
        return start

    def arm(self, name: str, create: Callable[[], tinker.TrainingClient]) -> tinker.TrainingClient:
        """Start an arm: create its client, ask for its optimizer, load the start into it, ask again, look at it.

        An arm may be started several times, as for a grid of learning rates; each start has to show the same.

        Args:
            create: A fresh client with the arm's own optimizer.

        Returns:
            The client, which has taken no step yet.

        Raises:
            HarnessError: the server counts steps of it after the load, or it starts otherwise than it did before.
        """
        client = create()
        created = client.get_info()
        with deprecated_on_purpose():  # No other call answers with the checkpoint that was loaded.
            loaded = client.load_state(self.checkpoint).result()
        restored = _ask(self.service, client)
        _refuse_trained(restored, f"the arm {name!r}")
        adapter = download_adapter(self.service, client).sha256
        output = output_exhibit(client.forward(list(self.batch), "cross_entropy").result())
        evidence = _observations(name, created, loaded, restored, adapter)
        for exhibit in (evidence, output):
            exhibit.retain(self.run, "provenance")
        entry = self._entry(name, (created, restored), loaded.path, adapter, output, evidence.name)
        before = self._entries.setdefault(name, entry)
        if _shown(before) != _shown(entry):
            raise HarnessError(
                f"The arm {name!r} was started twice, and the second start shows another adapter, output or optimizer; "
                "both are in the evidence. Find out which one is wrong before anything is trained."
            )
        return client

    def publish(self) -> GateReading:
        """Report all arms that were started and ask whether they may train."""
        self.run.update(initialization_provenance=self.report())
        return self.run.gate(_GATE)

    def report(self) -> dict[str, Any]:
        """The document of R-091."""
        extra = {} if self.equivalence is None else {"restore_equivalence": dict(self.equivalence)}
        return {"version": 1, "arms": [{**entry, **extra} for entry in self._entries.values()]}

    @property
    def _input(self) -> Exhibit:
        return input_exhibit(self.batch)

    def _entry(
        self,
        name: str,
        answers: tuple[GetInfoResponse, WeightsInfoResponse],
        loaded: str | None,
        adapter: str,
        output: Exhibit,
        evidence: str,
    ) -> dict[str, Any]:
        return {
            "arm": name,
            "initialization": {
                "base_checkpoint": answers[1].base_model,
                "adapter_sha256": adapter,
                "checkpoint_uri": self.checkpoint,
                "loaded_checkpoint_uri": loaded,
                "load_succeeded": adapter == self.adapter_sha256,
                "checkpoint_immutable": True,
                "checkpoint_scope": "full_initialization",
                "source": "server_response",
                "evidence_ref": evidence,
                "before_first_update": True,
            },
            "restore_count": 1,
            "optimizer_checks": [_optimizer_check(0, answers[0], evidence), _optimizer_check(1, answers[1], evidence)],
            "initial_output": {
                "available": True,
                "batch_sha256": self._input.sha256,
                "output_sha256": output.sha256,
                "evidence_ref": output.name,
                "before_first_update": True,
            },
        }


def report_restore(run: Run, service: tinker.ServiceClient, client: tinker.TrainingClient, *, arm: str) -> GateReading:
    """Add to an arm's report that it went on from a checkpoint of its own, and with which optimizer (R-097).

    Call it after the restore and before the next update; what the report says of the arm's start stays as it is.

    Raises:
        HarnessError: nothing was reported of the arm's start.
    """
    report: dict[str, Any] = next(run.reported("initialization_provenance"), {"arms": []})
    entry = next((each for each in report["arms"] if each["arm"] == arm), None)
    if entry is None:
        raise HarnessError(f"The start of the arm {arm!r} is not on record, so neither can a restore of it be.")
    entry["restore_count"] += 1
    restored = _ask(service, client)
    answer = {"arm": arm, "weights_info": restored.model_dump(mode="json", exclude_unset=True)}
    evidence = Exhibit(f"restore-{entry['restore_count']}-of-{arm}", json.dumps(answer).encode() + b"\n")
    evidence.retain(run, "provenance")
    entry["optimizer_checks"].append(_optimizer_check(entry["restore_count"], restored, evidence.name))
    run.update(initialization_provenance=report)
    return run.gate(_GATE)


def restore_equivalence(
    service: tinker.ServiceClient, client: tinker.TrainingClient, accumulate: Accumulate, params: OptimParams
) -> ParityErrors:
    """How nearly a client that was saved and restored repeats the next update of the one that just goes on (R-09E).

    `client` takes two steps on the gradient of `accumulate` and is of no use afterwards; the restored one takes the
    second of them.
    """
    _step(client, accumulate, params)
    checkpoint = client.save_state(f"between-{uuid.uuid4().hex}").result().path
    before = download_adapter(service, client)
    restored = service.create_training_client_from_state_with_optimizer(checkpoint).result()
    for each in (client, restored):
        _step(each, accumulate, params)
    return parity_errors(*(download_adapter(service, each).minus(before) for each in (restored, client)))


def _ask(service: tinker.ServiceClient, client: tinker.TrainingClient) -> WeightsInfoResponse:
    """What the server says of a client as it is now."""
    rest = rest_client(service)
    path = client.save_state(f"observed-{uuid.uuid4().hex}").result().path
    try:
        return rest.get_weights_info_by_tinker_path(path).result()
    finally:
        rest.delete_checkpoint_from_tinker_path(path).result()


def _step(client: tinker.TrainingClient, accumulate: Accumulate, params: OptimParams) -> None:
    accumulate(client)
    client.optim_step(params).result()


def _optimizer_check(number: int, info: GetInfoResponse | WeightsInfoResponse, evidence: str) -> dict[str, Any]:
    """What an answer says about the optimizer. The SDK makes up an AdamW where the answer says nothing."""
    if "optimizer_config" not in info.model_fields_set:
        return {"after_restore": number, "before_next_update": True, "source": "declared", "actual": None}
    config = info.optimizer_config.model_dump(mode="json")
    return {
        "after_restore": number,
        "before_next_update": True,
        "source": "server_response",
        "actual": config["type"],
        "actual_config": config,
        "evidence_ref": evidence,
    }


def _observations(
    name: str, created: GetInfoResponse, loaded: LoadWeightsResponse, restored: WeightsInfoResponse, adapter: str
) -> Exhibit:
    """The answers of the server, as they were given."""
    responses = {"get_info": created, "load_weights": loaded, "weights_info": restored}
    answers = {
        "arm": name,
        "responses": {call: answer.model_dump(mode="json", exclude_unset=True) for call, answer in responses.items()},
        "loaded_checkpoint_uri": loaded.path,
        "adapter_sha256": adapter,
    }
    return Exhibit(f"start-of-{name}", json.dumps(answers).encode() + b"\n")


def _shown(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without the names of its files, which hold the client's id."""
    kept = {key: entry[key] for key in ("restore_count", "initial_output")}
    checks = [{**check, "evidence_ref": None} for check in entry["optimizer_checks"]]
    return {**kept, "checks": checks, "initialization": {**entry["initialization"], "evidence_ref": None}}


def _refuse_trained(info: WeightsInfoResponse, what: str) -> None:
    """By the step count, where the service tells it."""
    step = getattr(info.optimizer_config, "step", None)
    if step:
        raise HarnessError(f"The service counts {step} optimizer steps of {what}, which is to start untrained.")
