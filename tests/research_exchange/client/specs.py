"""The spec that the client's tests run."""

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

SPEC = {
    "title": "A spec for the client's tests",
    "hypothesis": "The trained arm is better than the untrained one.",
    "method": "Train one arm and score it beside the untrained one.",
    "base_model": "a tiny model",
    "success_criterion": "The trained arm is better.",
    "budget": {"gpu_hours": 1, "max_wall_minutes": 60},
    "experiment_features": dict.fromkeys(FEATURES, False),
    "activation_gate": {
        "applicable": True,
        "reason": "Something to judge.",
        "checks": [{"metric": "reward", "measures": "mean reward", "min": 0.1, "max": 0.9}],
    },
    "arms": [{"name": "trained"}, {"name": "untrained"}],
}
