"""A stand-in for a coding agent: a program that knows nothing but the brief on its standard input.

It finds in the text what experiment it is, where and with which variables to report, which gates apply, and the service
to train on; it carries the experiment out, asks the Exchange before it trains, and stops where the brief says to stop.
"""

import hashlib
import json
import os
import re
import sys
import urllib.request
from typing import Any

import tinker
from tinker.types import AdamParams, Datum, ModelInput, TensorData

BRIEF = sys.stdin.read()
assert os.listdir() == [], "an agent starts in an empty folder"  # noqa: PTH208 - the shortest way to say it


def in_brief(pattern: str) -> str:
    """What the brief says at a place."""
    found = re.search(pattern, BRIEF, re.MULTILINE | re.DOTALL)
    assert found, f"the brief does not say {pattern}"
    return found[1]


SPEC: dict[str, Any] = json.loads(in_brief(r"^## Experiment spec\n\n```json\n(.*?)\n```"))
assert in_brief(r"Your run is `(run_[0-9a-f]{10})`") == os.environ["RX_RUN_ID"]


def ask(request: str, body: bytes | None = None, **params: str) -> Any:
    """Sends a request that the brief's table of requests lists, by how it begins there."""
    method, address = in_brief(rf"^\| `({re.escape(request)}[^`?]*)").split(" ")
    for name in re.findall(r"\$(\w+)", address):
        address = address.replace(f"${name}", os.environ[name])
    if params:
        address += "?" + "&".join(f"{name}={value}" for name, value in params.items())
    header, _, token = in_brief(r"header\s+`([^`]*)`").partition(": ")
    sent = urllib.request.Request(address, data=body, method=method)
    sent.add_header(header, token.replace("$RX_RUN_TOKEN", os.environ["RX_RUN_TOKEN"]))
    with urllib.request.urlopen(sent, timeout=60) as answer:
        return json.loads(answer.read())


def report(**fields: Any) -> None:
    ask("POST $RX_URL/api/runs/$RX_RUN_ID/updates", json.dumps({"status": "running", **fields}).encode())


def train(steps: int) -> list[float]:
    """The mean loss of each step of a training on one sentence."""
    with tinker.ServiceClient(base_url=os.environ[in_brief(r"address from\s+`(\w+)`")]) as service:
        learner = service.create_lora_training_client(SPEC["base_model"], rank=SPEC["lora_rank"], seed=0).result()
        inputs = {
            "target_tokens": TensorData(data=[5, 6, 7], dtype="int64", shape=[3]),
            "weights": TensorData(data=[1.0, 1.0, 1.0], dtype="float32", shape=[3]),
        }
        data = [Datum(model_input=ModelInput.from_ints([4, 5, 6]), loss_fn_inputs=inputs)]
        losses = []
        for _ in range(steps):
            output = learner.forward_backward(data, "cross_entropy").result()
            learner.optim_step(AdamParams(learning_rate=SPEC["optimizer"]["lr"])).result()
            losses.append(output.metrics["loss:sum"] / 3)
    return losses


def main() -> None:
    report(summary=f"Read a brief with the hash {hashlib.sha256(BRIEF.encode()).hexdigest()}.", deviations=[])
    script = open(__file__, "rb").read()  # noqa: PTH123, SIM115 - no import for it
    ask("POST $RX_URL/api/runs/$RX_RUN_ID/evidence", script, name="agent.py", kind="script")
    if in_brief(r"^\| `activation_gate` \| (\w+)") == "yes":
        pilot = train(2)
        measured = {check["metric"]: pilot[-1] / pilot[0] for check in SPEC["activation_gate"]["checks"]}
        report(activation_calibration={"values": measured, "note": "Two steps in the regime of the run."})
        [gate] = [
            each
            for each in ask("GET $RX_URL/api/runs/$RX_RUN_ID/judgment")["gates"]
            if each["gate"] == "activation_gate"
        ]
        if gate["status"] != "passed":
            report(
                status="failed",
                verdict=in_brief(r"report what you found with the\s+verdict `(\w+)`"),
                outcome_reason="insufficient_evidence",
                original_hypothesis_tested=True,
                deviations=[],
                summary=f"The activation gate stopped the run: {gate['reason']}",
            )
            return
    losses = train(SPEC["steps"])
    [arm] = [arm["name"] for arm in SPEC["arms"]]
    report(metrics={"arms": {arm: {"loss": losses[-1]}}}, completed_arms=[arm])
    report(
        status="succeeded",
        verdict="supported" if losses[-1] < losses[0] else "refuted",
        original_hypothesis_tested=True,
        deviations=[],
        summary=f"The loss went from {losses[0]:.3f} to {losses[-1]:.3f}.",
    )


if __name__ == "__main__":
    main()
