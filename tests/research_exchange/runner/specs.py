"""Small specs that lint clean, and their folders."""

import json
from pathlib import Path
from typing import Any

from research_exchange.experiment_features import FEATURES


def spec_document(**changes: Any) -> dict[str, Any]:
    """A spec in which every check is explicitly left out, but for what `changes` says."""
    return {
        "title": "A spec for the runner's tests",
        "hypothesis": "The script runs.",
        "method": "Run the script.",
        "base_model": "test/tiny-llama",
        "success_criterion": "It has run.",
        "experiment_features": dict.fromkeys(FEATURES, False),
        "arms": [{"name": "only"}],
        "budget": {"gpu_hours": 0.1, "max_wall_minutes": 5},
        "command": "python train.py",
        **changes,
    }


def spec_folder(folder: Path, script: str, **changes: Any) -> Path:
    """Writes a spec and its script; returns the path of the spec."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(script)
    path = folder / "spec.json"
    path.write_text(json.dumps(spec_document(**changes)))
    return path
