"""The briefs that are kept as golden files. `python -m tests.research_exchange.briefs.cases` writes them again."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from research_exchange.briefs import BriefInput, render_brief, service_profile
from research_exchange.documents.idea import IdeaContext
from research_exchange.documents.launch import LaunchMode
from research_exchange.documents.spec import Spec

GOLDEN = Path(__file__).parent / "golden"
EXPERIMENTS = Path(__file__).parents[3] / "experiments"

NOT_MEASURED: Mapping[str, Any] = {
    "status": "unknown",
    "problems": ["Measured feasibility not recorded"],
    "wall_seconds": None,
    "gpu_hours": None,
    "known_gpu_hours": 0,
    "phases": {},
}
"""What is computed for a spec whose feasibility is null (R-022)."""

CONTEXT = IdeaContext(
    title="Does one rollout per prompt do as well as eight?",
    summary="Spread the rollouts of a step over many prompts, and borrow the baseline from similar ones.",
    source="https://ideas.example.org/gs1",
    triage="Only the advantage is new, and it is computed by the client.",
)


def original(name: str) -> Spec:
    """The spec of a seed experiment as it was written."""
    return Spec.parse((EXPERIMENTS / name / "spec.original.json").read_bytes())


def changed(spec: Spec, **fields: Any) -> Spec:
    """The spec with top-level fields replaced."""
    return Spec.parse(json.dumps({**spec.value, **fields}).encode())


def legacy(profile: str = "modal-spindle", spec: Spec | None = None, **options: Any) -> BriefInput:
    """A redo of a version from before features and snapshots."""
    given = {"launch_mode": LaunchMode.REDO, "profile": service_profile(profile), **options}
    return BriefInput(spec or original("score_centering"), "exp_0123456789", "run_abcdef0123", **given)


def declared(profile: str = "modal-spindle", spec: Spec | None = None, **options: Any) -> BriefInput:
    """An ordinary run of a version with all features declared."""
    given = {
        "launch_mode": LaunchMode.ORDINARY,
        "profile": service_profile(profile),
        "context": CONTEXT,
        "feasibility_check": NOT_MEASURED,
        **options,
    }
    return BriefInput(spec or original("gs1_vs_grpo"), "exp_9876543210", "run_3210fedcba", **given)


CASES: Mapping[str, Callable[[], BriefInput]] = {
    "score_centering.modal-spindle.md": legacy,
    "gs1_vs_grpo.modal-spindle.md": declared,
    "gs1_vs_grpo.spindle.md": lambda: declared("spindle"),
    "gs1_vs_grpo.tinker.md": lambda: declared("tinker"),
}

if __name__ == "__main__":
    for name, brief in CASES.items():
        (GOLDEN / name).write_text(render_brief(brief()), encoding="utf-8")
