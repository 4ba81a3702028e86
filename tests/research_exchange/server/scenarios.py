"""Documents of a small but complete run, as a runner would post them: a spec, progress, files, and a final update."""

import hashlib
import json
from typing import Any

from research_exchange.documents.evaluation import evaluator_id

ITEMS = 200
FEATURES = (
    "custom_loss",
    "custom_optimizer",
    "paired_comparison",
    "paired_training_arms",
    "checkpoint_restore",
    "warmup_adaptation",
    "generated_training_data",
    "learned_generator",
    "heldout_loss",
    "adaptive_selection",
)
Json = dict[str, Any]


def spec(title: str = "Trained against untrained adapter on addition", **changes: Any) -> Json:
    """Two arms, one criterion: half-width .192 at 200 items, margin .25."""
    return {
        "title": title,
        "hypothesis": "Training helps.",
        "method": "Train one adapter and leave the other as it is.",
        "base_model": "example/tiny",
        "experiment_features": {name: name == "paired_comparison" for name in FEATURES},
        "activation_gate": {
            "applicable": True,
            "reason": "There must be something to learn from.",
            "checks": [
                {"metric": "batch_mean_reward", "measures": "mean reward of the pilot", "min": 0.02, "max": 0.9}
            ],
        },
        "decision_rule": {
            "version": 1,
            "estimand": "accuracy, trained minus untrained",
            "unit": "fixed_checkpoint_items",
            "seeds": [0],
            "alpha": 0.05,
            "method": "paired_hoeffding",
            "criteria": [
                {
                    "id": "primary_gain",
                    "metric": "accuracy",
                    "weights": {"trained": 1, "untrained": -1},
                    "margin": 0.25,
                    "bounds": [0, 1],
                }
            ],
        },
        "arms": [{"name": "trained"}, {"name": "untrained"}],
        "success_criterion": "The trained adapter answers more additions than the untrained one.",
        "budget": {"gpu_hours": 0.1, "max_wall_minutes": 10},
        "command": "python train.py",
        **changes,
    }


def encode(document: Json) -> bytes:
    return json.dumps(document).encode()


def item(number: int) -> str:
    return f"item-{number:03}"


PROVENANCE: Json = {
    "code_sha256": "c" * 64,
    "prompt_template": "{question}",
    "decoding": {"temperature": 0, "max_tokens": 4, "stop": ["\n"]},
    "parser": "exact",
    "items": {"ids": [item(number) for number in range(ITEMS)]},
}
EVALUATOR = evaluator_id(PROVENANCE)


def observations(wins: int) -> bytes:
    """JSONL rows: the trained arm solves the first `wins` items, the untrained one none."""
    rows = [
        {
            "item_id": item(number),
            "arm": arm,
            "seed": 0,
            "metric": "accuracy",
            "value": int(arm == "trained" and number < wins),
            "evaluator_id": EVALUATOR,
        }
        for arm in ("trained", "untrained")
        for number in range(ITEMS)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def progress(step: int, reward: float) -> Json:
    return {"status": "running", "metrics": {"step": step, "reward": reward}}


def calibration(reward: float = 0.4) -> Json:
    return {"status": "running", "activation_calibration": {"values": {"batch_mean_reward": reward}, "note": "pilot"}}


def final(wins: int, verdict: str = "supported", file: str = "observations.jsonl", **changes: Any) -> Json:
    """The final update of a run whose rows are retained under `file`."""
    return {
        "status": "succeeded",
        "summary": "Both arms were scored.",
        "verdict": verdict,
        "outcome_reason": verdict if verdict != "inconclusive" else "insufficient_evidence",
        "completed_arms": ["trained", "untrained"],
        "metrics": {"arms": {"trained": {"accuracy": wins / ITEMS}, "untrained": {"accuracy": 0.0}}},
        "deviations": [],
        "evaluation": {
            "version": 1,
            "evaluators": {EVALUATOR: PROVENANCE},
            "scores": [
                {"arm": arm, "metric": "accuracy", "value": value, "evaluator_id": EVALUATOR, "seed": 0}
                for arm, value in (("trained", wins / ITEMS), ("untrained", 0.0))
            ],
            "comparisons": [{"metric": "accuracy", "arms": ["trained", "untrained"]}],
        },
        "decision": {
            "version": 1,
            "observations_file": {"name": file, "sha256": hashlib.sha256(observations(wins)).hexdigest()},
        },
        **changes,
    }
