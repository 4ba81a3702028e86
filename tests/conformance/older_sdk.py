"""What scripts written for an older SDK do; run by `test_older_sdks.py` under that SDK, never imported.

`python -m tests.conformance.older_sdk` runs every scenario and prints one JSON object: what each returned, or its
traceback under the name of the scenario. With a checkpoint path it only resumes from there. `--json` turns off the
protobuf bodies that the server asks clients up to 0.24 for.
"""

import argparse
import io
import json
import tarfile
import traceback
import urllib.request
from collections.abc import Callable
from typing import Any

import tinker
import torch
from tinker import types

from tests.conformance.data import TEXT, logprobs, policy, prompt, supervised
from tests.servers import MODEL

ADAM = types.AdamParams(learning_rate=1e-2, eps=1e-8)
GREEDY = types.SamplingParams(max_tokens=4, temperature=0.0)


def create(service: Any) -> Any:
    return service.create_lora_training_client(base_model=MODEL, rank=4, seed=3, user_metadata={"by": "older"})


def advance(training: Any, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        gradient, step = training.forward_backward([supervised()], "cross_entropy"), training.optim_step(ADAM)
        losses.append(gradient.result().metrics["loss:sum"])
        step.result()
    return losses


def likelihood(training: Any) -> list[float]:
    return [float(value) for value in logprobs(training.forward([supervised()], "cross_entropy").result())[0]]


def train(service: Any) -> Any:
    """Supervised steps, a batch of several requests, a loss computed by the client, and policy gradients."""
    training = create(service)
    losses = advance(training, 6)
    many = training.forward_backward([supervised(TEXT[: 4 + index % 3]) for index in range(1100)], "cross_entropy")
    lengths = [len(values) for values in logprobs(many.result())]

    def likelihood_loss(_: Any, likelihoods: list[Any]) -> tuple[Any, dict[str, float]]:
        return -torch.stack([values.sum() for values in likelihoods]).sum(), {"custom": 1.0}

    custom = training.forward_backward_custom([supervised()], likelihood_loss).result().metrics
    sampler = training.save_weights_and_get_sampling_client("rollouts")
    sequence = sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=4, seed=1, stop=[])).result().sequences[0]
    reinforced = training.forward_backward([policy(TEXT, sequence, 1.0)], "importance_sampling").result()
    drift = [
        abs(float(ours) - theirs)
        for ours, theirs in zip(logprobs(reinforced)[0][len(TEXT) - 1 :], sequence.logprobs, strict=True)
    ]
    step = training.optim_step(ADAM).result().metrics
    return {
        "losses": losses,
        "lengths": lengths == [3 + index % 3 for index in range(1100)],
        "custom": sorted(custom),
        "drift": max(drift),
        "step": step,
        "tokens": training.get_tokenizer().encode("ab"),
        "lora_rank": training.get_info().lora_rank,
    }


def sample(service: Any) -> Any:
    """Every field of a sample that these SDKs know."""
    capabilities = [model.model_name for model in service.get_server_capabilities().supported_models]
    sampler = service.create_sampling_client(base_model=MODEL)
    params = types.SamplingParams(max_tokens=5, seed=4, stop=[])
    group, again = (sampler.sample(prompt(), 3, params).result() for _ in range(2))
    free = sampler.sample(prompt(), 1, GREEDY).result().sequences[0].tokens
    stopped = (
        sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=4, temperature=0.0, stop=[free[1]]))
        .result()
        .sequences[0]
    )
    scored = sampler.sample(prompt(), 1, GREEDY, include_prompt_logprobs=True, topk_prompt_logprobs=3).result()
    return {
        "capabilities": capabilities,
        "lengths": [len(sequence.tokens) for sequence in group.sequences],
        "logprobs": [len(sequence.logprobs) for sequence in group.sequences],
        "distinct": len({tuple(sequence.tokens) for sequence in group.sequences}),
        "repeats": [list(one.tokens) for one in group.sequences] == [list(one.tokens) for one in again.sequences],
        "stopped": [list(stopped.tokens), str(stopped.stop_reason), list(free)],
        "prompt_logprobs": list(scored.prompt_logprobs),
        "computed": list(sampler.compute_logprobs(prompt()).result()),
        "topk": [row and [list(cell) for cell in row] for row in scored.topk_prompt_logprobs],
    }


def checkpoints(service: Any) -> Any:
    """Saved, loaded into this client, into a new one, and (see the test) in another process."""
    training = create(service)
    advance(training, 2)
    saved = training.save_state("older").result().path
    expected = likelihood(training)
    advance(training, 1)
    continued = likelihood(training)
    restored = service.create_training_client_from_state_with_optimizer(saved)
    weights_only = service.create_training_client_from_state(saved)
    snapshot = training.save_weights_for_sampler("older").result().path
    scored = service.create_sampling_client(model_path=snapshot).compute_logprobs(prompt()).result()
    values = {
        "path": saved,
        "expected": expected,
        "continued": continued,
        "restored": likelihood(restored),
        "weights_only": likelihood(weights_only),
        "snapshot": snapshot,
        "scored": list(scored[1:]),
    }
    advance(restored, 1)
    return values | {"restored_continued": likelihood(restored)}


def listing(service: Any) -> Any:
    """What the server has, through the REST client, and changing what may be changed."""
    training = create(service)
    saved = training.save_state("listed").result().path
    snapshot = training.save_weights_for_sampler("listed").result().path
    rest = service.create_rest_client()
    run = rest.get_training_run(training.model_id).result()
    rest.publish_checkpoint_from_tinker_path(saved).result()
    rest.set_checkpoint_ttl_from_tinker_path(saved, 7200).result()
    listed = rest.list_checkpoints(training.model_id).result().checkpoints
    everything = rest.list_user_checkpoints(limit=1000).result()
    rest.unpublish_checkpoint_from_tinker_path(saved).result()
    session = training.model_id.partition(":")[0]
    archive = rest.get_checkpoint_archive_url_from_tinker_path(snapshot).result()
    with tarfile.open(fileobj=io.BytesIO(urllib.request.urlopen(archive.url, timeout=30).read())) as files:
        names = sorted(files.getnames())
    rest.delete_checkpoint_from_tinker_path(saved).result()
    weights = rest.get_weights_info_by_tinker_path(snapshot).result()
    return {
        "run": [run.training_run_id == training.model_id, run.base_model, run.lora_rank, run.user_metadata],
        "runs": [one.training_run_id for one in rest.list_training_runs(limit=1000).result().training_runs].count(
            training.model_id
        ),
        "listed": {one.checkpoint_id: [one.public, one.expires_at is not None] for one in listed},
        "types": sorted({one.checkpoint_type for one in everything.checkpoints}),
        "session": training.model_id in rest.get_session(session).result().training_run_ids,
        "sessions": session in rest.list_sessions(limit=1000).result().sessions,
        "weights": [weights.base_model, weights.is_lora, weights.lora_rank],
        "archive": names,
        "deleted": [one.checkpoint_id for one in rest.list_checkpoints(training.model_id).result().checkpoints],
        "by_path": rest.get_training_run_by_tinker_path(snapshot).result().training_run_id == training.model_id,
    }


def errors(service: Any) -> Any:
    """Mistakes: what they raise, and that the loop goes on after them."""
    training = create(service)
    raised = {
        "loss": attempt(lambda: training.forward_backward([supervised()], "nonsense").result()),
        "name": attempt(lambda: training.save_state("a/b").result()),
        "base": attempt(lambda: service.create_lora_training_client(base_model="org/absent")),
        "path": attempt(lambda: service.create_training_client_from_state(f"tinker://{training.model_id}/weights/no")),
    }
    return raised | {"after": advance(training, 1)}


def attempt(call: Callable[[], Any]) -> list[str]:
    try:
        return ["nothing", str(call())]
    except tinker.TinkerError as error:
        return [type(error).__name__, str(error)]


SCENARIOS: list[Callable[[Any], Any]] = [train, sample, checkpoints, listing, errors]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", nargs="?")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    service: Any = tinker.ServiceClient()
    if arguments.json:
        holder = service.holder
        holder._client_config = holder._client_config.model_copy(
            update={"proto_write_fwdbwd": False, "fwd_via_fwdbwd": False}
        )
    results: dict[str, Any] = {"sdk": tinker.__version__}
    if arguments.path:
        training = service.create_training_client_from_state_with_optimizer(arguments.path)
        advance(training, 1)
        results["resumed"] = likelihood(training)
    else:
        for scenario in SCENARIOS:
            try:
                results[scenario.__name__] = scenario(service)
            except Exception:
                results[scenario.__name__] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
