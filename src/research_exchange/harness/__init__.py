"""What an experiment script needs beside the training loop: the checks before it, a frozen evaluator, the verdict.

Here lives the part of `research_exchange` that talks to a Tinker-compatible service through the stock `tinker` SDK.
Experiments import it; nothing else does. It measures and writes down; what the numbers mean is decided by the same
rules that the Exchange applies (`research_exchange.evaluation`, `research_exchange.decision`), never restated here.
"""

from research_exchange.harness.activation import publish_pilot
from research_exchange.harness.adapters import Adapter, download_adapter
from research_exchange.harness.audit import Solution, audit_generated, held_out, sampling_solver
from research_exchange.harness.capacity import CapacityClock, CapacityExhausted, capacity_clock
from research_exchange.harness.checkpoints import Checkpoints
from research_exchange.harness.comparison import Comparison
from research_exchange.harness.correctness import (
    CorrectnessPreflight,
    LossPath,
    OptimizerPath,
    ReferenceLoss,
    pinned_module,
    revision_of,
)
from research_exchange.harness.diagnosis import (
    Case,
    Cause,
    Diagnosis,
    Drift,
    Schedule,
    deterministic_case,
    policy_drift,
)
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.evaluator import Evaluator, Item
from research_exchange.harness.feasibility import Allocation, FeasibilityTimer, must_fit, publish_feasibility
from research_exchange.harness.fixed_inputs import Exhibit, input_exhibit, output_exhibit
from research_exchange.harness.fixed_state import FixedState, Gradient, loss_of
from research_exchange.harness.gates import GateStopped, must_pass, stop_at, stopped_runs_end
from research_exchange.harness.grading import exact_match, numeric_answer
from research_exchange.harness.learning_rates import LearningRateSearch, Point
from research_exchange.harness.manifests import Batch, Consumption, PairedBatches, publish_manifests
from research_exchange.harness.models import ServedModel, closest_model, served_model
from research_exchange.harness.probe import Probe, ProbedArm, probe_arms
from research_exchange.harness.progress import Progress
from research_exchange.harness.provenance import code_revision, effective_config
from research_exchange.harness.restoration import Restoration, report_restore, restore_equivalence
from research_exchange.harness.rollouts import policy_datum, sample_groups, scored_datum, weighted
from research_exchange.harness.rows import jsonl
from research_exchange.harness.scores import ArmScore
from research_exchange.harness.service import adamw_client, proxy_headers, service_client
from research_exchange.harness.signals import largest_logprob_gap, stability_signals
from research_exchange.harness.tasks import Task, first_line, task_named
from research_exchange.harness.work import work_folder

__all__ = [
    "Adapter",
    "Allocation",
    "ArmScore",
    "Batch",
    "CapacityClock",
    "CapacityExhausted",
    "Case",
    "Cause",
    "Checkpoints",
    "Comparison",
    "Consumption",
    "CorrectnessPreflight",
    "Diagnosis",
    "Drift",
    "Evaluator",
    "Exhibit",
    "FeasibilityTimer",
    "FixedState",
    "GateStopped",
    "Gradient",
    "HarnessError",
    "Item",
    "LearningRateSearch",
    "LossPath",
    "OptimizerPath",
    "PairedBatches",
    "Point",
    "Probe",
    "ProbedArm",
    "Progress",
    "ReferenceLoss",
    "Restoration",
    "Schedule",
    "ServedModel",
    "Solution",
    "Task",
    "adamw_client",
    "audit_generated",
    "capacity_clock",
    "closest_model",
    "code_revision",
    "deterministic_case",
    "download_adapter",
    "effective_config",
    "exact_match",
    "first_line",
    "held_out",
    "input_exhibit",
    "jsonl",
    "largest_logprob_gap",
    "loss_of",
    "must_fit",
    "must_pass",
    "numeric_answer",
    "output_exhibit",
    "pinned_module",
    "policy_datum",
    "policy_drift",
    "probe_arms",
    "proxy_headers",
    "publish_feasibility",
    "publish_manifests",
    "publish_pilot",
    "report_restore",
    "restore_equivalence",
    "revision_of",
    "sample_groups",
    "sampling_solver",
    "scored_datum",
    "served_model",
    "service_client",
    "stability_signals",
    "stop_at",
    "stopped_runs_end",
    "task_named",
    "weighted",
    "work_folder",
]
