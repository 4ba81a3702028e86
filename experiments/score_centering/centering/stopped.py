"""What follows where the activation gate stops the run: the likely cause, what to do next, and what shows it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tinker.types import Datum

from research_exchange.client import GateReading
from research_exchange.harness import (
    Case,
    Cause,
    Diagnosis,
    Schedule,
    deterministic_case,
    input_exhibit,
)

from .losses import NO_OP, Kind, Objective, Weight
from .plan import Plan
from .preflights import Pilot, pilot_steps

__all__ = ["diagnose"]

MODEL, GAP, CORRECTION = "executed_base_model", "stale_logprob_gap", "stale_sum_abs_c"
"""Checks of the spec whose failure has a cause of its own."""
OFF = {Weight.NONE: -0.3, Weight.IDENTITY: -0.3, Weight.TIS: 1.0, Weight.MIS: -1.0}
"""How far every other token of a made learner is from the sampler, in nats: beyond what each weight cuts off."""


def diagnose(gate: GateReading, plan: Plan, piloted: Pilot) -> Diagnosis:
    """Why the activation gate stopped the run: whether the treatment works where it must, and lies still where it must.

    The inputs are the pilot's own answers; as the learner's distribution serve the sampler's, and one that is off.
    """
    same = [_learner_like_sampler(datum) for datum in piloted.data]
    tilted = [np.where(np.arange(each.shape[1]) % 2, each + OFF[Weight(plan.weight)], each) for each in same]
    acts = plan.weight != Weight.IDENTITY
    cases = tuple(
        deterministic_case(
            name,
            learner,
            enabled=lambda given: _by_head(Kind.SCORE_CENTERING, plan, piloted.data, given),
            disabled=lambda given: _by_head(Kind.POLICY_GRADIENT, plan, piloted.data, given),
            must_activate=activates,
            threshold=1e-6,
        )
        for name, learner, activates in (("learner is sampler", same, False), ("learner is off", tilted, acts))
    )
    found = _find(gate, plan, cases)
    return Diagnosis(
        gate=gate,
        cause=found.cause,
        explanation=" ".join([*(gate.problems or (gate.reason,)), *([found.why] if found.why else [])]),
        next_diagnostic=found.advice,
        cases=cases,
        inputs=(input_exhibit(piloted.data, "pilot-input"),),
        schedule=Schedule(
            optimizer_calls=pilot_steps(plan),
            disjoint_minibatches=pilot_steps(plan),
            epochs=1,
            intervening_updates=plan.stale_steps,
            sampler_checkpoint=piloted.last,
        ),
    )


class _Finding(NamedTuple):
    """Why the gate stopped the run, and the cheapest thing to do next."""

    cause: Cause
    why: str
    advice: str


def _find(gate: GateReading, plan: Plan, cases: Sequence[Case]) -> _Finding:
    """What is certain first: a defect, another model, a treatment that is none; then a regime it has no hold on."""
    failed = {name for name in (MODEL, GAP, CORRECTION) if name in str(gate.problems)}
    weight, older = Weight(plan.weight), f"weights older than {plan.stale_steps} steps to sample from"
    if not all(case.holds for case in cases):
        return _Finding(
            Cause.DEFECT,
            "On made inputs the correction does not do what it must.",
            "The tests of losses.py, on the inputs that are kept beside this record.",
        )
    if MODEL in failed:
        return _Finding(
            Cause.WRONG_REFERENCE,
            "Another model was asked for, or served, than the spec names.",
            "Run the spec's own model, or save a spec of the other one.",
        )
    if CORRECTION in failed and weight is Weight.IDENTITY:
        return _Finding(
            Cause.WRONG_REFERENCE,
            NO_OP,
            "Compare with the arm plain instead, or take --weight none; older weights cannot help.",
        )
    if GAP in failed:
        return _Finding(
            Cause.INACTIVE_REGIME,
            "Sampler and learner are all but the same, and so are the losses.",
            f"A new version of the spec, with {older}.",
        )
    if CORRECTION in failed and weight in (Weight.TIS, Weight.MIS):
        return _Finding(
            Cause.INACTIVE_REGIME,
            f"With the weight {weight} a correction is zero wherever nothing is cut off, and next to nothing was.",
            f"Take --weight none; or a new version of the spec, with {older} or a higher learning rate.",
        )
    if CORRECTION in failed:
        return _Finding(
            Cause.INACTIVE_REGIME,
            "Sampler and learner differ too little for the correction to matter.",
            f"A new version of the spec, with {older}.",
        )
    return _Finding(
        Cause.UNKNOWN,
        "",
        "The accuracy of the base model on this task: rl_score_centering.py --measure-base.",
    )


def _learner_like_sampler(datum: Datum) -> NDArray[np.float64]:
    inputs = datum.loss_fn_inputs
    return np.column_stack([inputs["logprobs"].to_numpy(), inputs["head_logprobs"].to_numpy()]).astype(np.float64)


def _by_head(
    kind: Kind, plan: Plan, data: Sequence[Datum], given: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """d loss / d log p of the heads, where the correction is all there is."""
    leaves = [torch.tensor(each, requires_grad=True) for each in given]
    loss, _ = Objective(kind, Weight(plan.weight))(list(data), leaves)
    return [each[:, 1:].numpy() for each in torch.autograd.grad(loss, leaves)]
