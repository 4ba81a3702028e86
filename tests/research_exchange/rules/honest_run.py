"""A complete, honest run of the corrected GS1 spec: every gate passes, and 33 net wins support its criterion."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from tests.research_exchange.rules.support import EXPERIMENTS

__all__ = ["BASELINE", "ITEMS", "TREATMENT", "honest_run"]

BASELINE, TREATMENT = "grpo_gs8_seed0", "gs1_seed0"
ITEMS = tuple(f"item-{number:04}" for number in range(1319))
BOTH, TREATMENT_ONLY, BASELINE_ONLY = 800, 110, 77
"""How many items each arm solves; the other 332 are solved by neither."""


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def solves(arm: str, number: int) -> int:
    """1 where an arm solves the item of this number."""
    if number < BOTH:
        return 1
    own = range(BOTH, BOTH + TREATMENT_ONLY) if arm == TREATMENT else range(BOTH + TREATMENT_ONLY, 987)
    return int(number in own)


@cache
def _document() -> str:
    spec = json.loads((EXPERIMENTS / "gs1_vs_grpo" / "spec.json").read_bytes())
    evaluator = {
        "code_sha256": digest("grade"),
        "prompt_template": "{question}\n",
        "decoding": {"temperature": 0, "max_tokens": 512, "stop": []},
        "parser": "last_number_v1",
        "items": {"ids": list(ITEMS)},
    }
    canonical = json.dumps(evaluator, sort_keys=True, separators=(",", ":"))
    evaluation = {"version": 1, "evaluators": {digest(canonical): evaluator}, "scores": [], "comparisons": []}
    scored = [*_preparation(spec, evaluation), *_results(evaluation, digest(canonical))]
    evidence = [
        {"name": name, "kind": kind, "content": content, "update": update}
        for update, posted in enumerate(scored, start=1)
        for name, (kind, content) in posted.pop("files", {}).items()
    ]
    return json.dumps({"spec": spec, "updates": scored, "evidence": evidence})


def honest_run() -> dict[str, Any]:
    """The run document, fresh, to be changed at will."""
    document: dict[str, Any] = json.loads(_document())
    return document


def _preparation(spec: Mapping[str, Any], evaluation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The evaluator is frozen, timings are taken, both arms are looked at, and only then anything trains."""
    config = {name: spec[name] for name in ("base_model", "lora_rank", "steps", "batch_size", "max_seq_len")}
    files = {
        "gs1_vs_grpo.py": ("script", "print('training')\n"),
        "config.json": ("effective_config", json.dumps({**config, "optimizer": spec["optimizer"]})),
        "revision.txt": ("code_revision", "9f2c1e7a\n"),
    }
    yield _running(
        "The evaluator is frozen.", deviations=[], evaluation=evaluation, feasibility=_timings(spec), files=files
    )
    rollouts = json.dumps({"tokens": [1, 2, 3], "rewards": [0, 1]})
    files = {
        "initialization.json": (
            "provenance",
            json.dumps({"adapter_sha256": digest("adapter"), "output": digest("logits")}),
        ),
        "optimizer.json": ("provenance", json.dumps(_created_optimizer(spec))),
        "rollouts.json": ("probe", rollouts),
        "preflight.py": ("probe", "print('errors')\n"),
    }
    yield _running(
        "Both arms start alike, and the new advantage agrees with its reference.",
        initialization_provenance={"version": 1, "arms": [_start(spec, arm) for arm in (BASELINE, TREATMENT)]},
        correctness_preflight={"required": True, "paths": [_measured(spec, digest(rollouts))]},
        activation_calibration={"values": _pilot(spec), "note": "three steps of each arm"},
        files=files,
    )


def _results(evaluation: Mapping[str, Any], evaluator: str) -> Iterator[dict[str, Any]]:
    scores = [_score(arm, evaluator) for arm in (BASELINE, TREATMENT)]
    yield _running(
        "The baseline is trained and scored.",
        metrics={"arms": {BASELINE: {"accuracy": scores[0]["value"]}}},
        completed_arms=[BASELINE],
        evaluation={**evaluation, "scores": scores[:1]},
        files={f"{BASELINE}.jsonl": ("predictions", _predictions(BASELINE, evaluator))},
    )
    rows = _lines(_row(arm, number, evaluator) for arm in (BASELINE, TREATMENT) for number in range(len(ITEMS)))
    yield {
        "status": "succeeded",
        "summary": "Both arms ran as planned. GS1 solves 33 items more than GRPO.",
        "verdict": "supported",
        "outcome_reason": "supported",
        "deviations": [],
        "original_hypothesis_tested": True,
        "metrics": {"arms": {TREATMENT: {"accuracy": scores[1]["value"]}}},
        "completed_arms": [BASELINE, TREATMENT],
        "evaluation": {
            **evaluation,
            "scores": scores,
            "comparisons": [{"metric": "accuracy", "arms": [BASELINE, TREATMENT]}],
        },
        "decision": {"version": 1, "observations_file": {"name": "rows.jsonl", "sha256": digest(rows)}},
        "files": {
            f"{TREATMENT}.jsonl": ("predictions", _predictions(TREATMENT, evaluator)),
            "rows.jsonl": ("metrics", rows),
        },
    }


def _running(summary: str, **parts: Any) -> dict[str, Any]:
    return {"status": "running", "summary": summary, **parts}


def _timings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The measured projection of contract §15: 72 minutes."""
    names = ("base_model", "lora_rank", "steps", "batch_size", "max_seq_len", "dataset", "eval")
    return {
        "config": "three steps of each arm",
        "effective_config": {name: spec[name] for name in names},
        "primary_endpoint": spec["primary_endpoint"],
        "source": "timing pilot",
        "measurements": {
            "setup": _timed(120, 1, 1, 0),
            "training": _timed(90, 3, 80, 1),
            "evaluation": _timed(60, 132, 2638, 1),
        },
        "generation": None,
        "recovery": {"seconds": 600, "gpu_count": 0, "allocation_source": None},
    }


def _timed(seconds: int, units: int, planned: int, gpus: int) -> dict[str, Any]:
    source = "nvidia-smi on the trainer" if gpus else None
    measured = {"seconds": seconds, "units": units, "planned_units": planned, "samples": 0}
    return {**measured, "gpu_count": gpus, "allocation_source": source}


def _created_optimizer(spec: Mapping[str, Any]) -> dict[str, Any]:
    (group,) = spec["restoration_preflight"]["groups"]
    return {"type": spec["optimizer"]["name"], **group["arms"][0]["optimizer_config"]}


def _start(spec: Mapping[str, Any], arm: str) -> dict[str, Any]:
    config = _created_optimizer(spec)
    check = {
        "after_restore": 0,
        "before_next_update": True,
        "source": "server_response",
        "actual": config.pop("type"),
        "actual_config": config,
        "evidence_ref": "optimizer.json",
    }
    shown = {"evidence_ref": "initialization.json", "before_first_update": True}
    return {
        "arm": arm,
        "initialization": {
            "base_checkpoint": spec["base_model"],
            "adapter_sha256": digest("adapter"),
            "source": "server_response",
            **shown,
        },
        "restore_count": 0,
        "optimizer_checks": [check],
        "initial_output": {
            "available": True,
            "batch_sha256": digest("batch"),
            "output_sha256": digest("logits"),
            **shown,
        },
    }


def _measured(spec: Mapping[str, Any], fixed_input: str) -> dict[str, Any]:
    (path,) = spec["correctness_preflight"]["paths"]
    loss = {"max_abs_error": 2e-7, "reference_max_abs": 0.5, "relative_l2_error": 4e-7, "cosine_similarity": 1.0}
    gradient = {"max_abs_error": 5e-7, "reference_max_abs": 0.25, "relative_l2_error": 1e-6, "cosine_similarity": 1.0}
    return {
        "id": path["id"],
        "fixed_input": {"sha256": fixed_input, "description": "two stale rollouts of different length"},
        "baseline_revision": path["baseline_revision"],
        "reference_revision": path["reference_revision"],
        "implementation_revision": "9f2c1e7a",
        "precision": "float32",
        "normalization": "sum over tokens",
        "errors": {name: loss if name.endswith("loss") else gradient for name in path["tolerances"]},
    }


def _pilot(spec: Mapping[str, Any]) -> dict[str, Any]:
    measured = {
        "gs1_effective_contributors_median": 11.5,
        "gs1_mean_abs_baseline_minus_uniform_loo": 0.08,
        "batch_mean_reward_pilot": 0.42,
    }
    fixed = {"gs1_executed_group_size": 1, "rollouts_per_step_both_arms": 64, "executed_base_model": spec["base_model"]}
    return {**measured, **fixed}


def _score(arm: str, evaluator: str) -> dict[str, Any]:
    value = sum(solves(arm, number) for number in range(len(ITEMS))) / len(ITEMS)
    score = {"arm": arm, "metric": "accuracy", "value": value, "evaluator_id": evaluator, "seed": 0}
    return {**score, "predictions_ref": f"{arm}.jsonl"}


def _row(arm: str, number: int, evaluator: str) -> dict[str, Any]:
    row = {"item_id": ITEMS[number], "arm": arm, "seed": 0, "metric": "accuracy", "evaluator_id": evaluator}
    return {**row, "value": solves(arm, number)}


def _predictions(arm: str, evaluator: str) -> str:
    rows = (_row(arm, number, evaluator) for number in range(len(ITEMS)))
    return _lines({**row, "prediction": "7" if row["value"] else "8", "reference": "7"} for row in rows)


def _lines(rows: Iterator[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)
