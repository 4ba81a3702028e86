"""Does a policy gradient need groups for its baseline? Two arms, trained alike but for what a reward is held against.

The `group` arm is GRPO (Shao et al. 2024): an answer is worth its reward less the mean reward of all answers to the
same problem. The `running` arm holds it against one number, the mean reward of the batch before; its loss is a custom
one, computed here and sent with `forward_backward_custom`. The task is to say which of two numbers is larger.

`rx run paired.spec.json` starts this script with the addresses of its run and of a training service in its environment.
It shows what a comparison of trained arms takes: one start for both, a loss that is checked before it trains, the same
batches in the same order, learning rates chosen on other problems than those that decide. Every check is one call of
`research_exchange.harness`, and the Exchange says what it shows.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import tinker

from research_exchange.client import Run
from research_exchange.harness import (
    CapacityClock,
    Comparison,
    Evaluator,
    FeasibilityTimer,
    HarnessError,
    LearningRateSearch,
    PairedBatches,
    Point,
    Progress,
    capacity_clock,
    code_revision,
    effective_config,
    jsonl,
    must_fit,
    must_pass,
    publish_feasibility,
    publish_manifests,
    publish_pilot,
    service_client,
    stopped_runs_end,
)

if TYPE_CHECKING or __package__:
    from experiments.arithmetic.comparing.plan import GROUP, RUNNING, Plan, Problems, evaluator
    from experiments.arithmetic.comparing.preflights import check_loss, pilot, probe, start_arms
    from experiments.arithmetic.comparing.training import Training
else:  # A run gets a copy of this folder alone.
    from comparing.plan import GROUP, RUNNING, Plan, Problems, evaluator
    from comparing.preflights import check_loss, pilot, probe, start_arms
    from comparing.training import Training

PILOT_STEPS = 2
RECOVERY_SECONDS = 120
"""Held back for trouble, in the projection of how long the run will take."""


def retain_setup(run: Run, plan: Plan, learner: tinker.TrainingClient, evaluators: dict[str, Evaluator]) -> None:
    """What was run, from which code, with which settings: a reviewer starts here."""
    script = Path(__file__)
    for file in (script, *sorted(script.with_name("comparing").glob("*.py"))):
        run.evidence(file.name if file == script else f"comparing-{file.name}", "script", file)
    run.evidence("code-revision.json", "code_revision", code_revision(script))
    frozen = {name: each.provenance for name, each in evaluators.items()}
    settings = effective_config(**asdict(plan), evaluators=frozen, service=learner.get_info())
    run.evidence("effective-config.json", "effective_config", settings)


def search_rates(
    run: Run,
    plan: Plan,
    trainings: dict[Point, Training],
    search: LearningRateSearch,
    selecting: Evaluator,
    service: tinker.ServiceClient,
    capacity: CapacityClock,
) -> dict[Point, str]:
    """Train every arm at every rate of its grid, and score each on the selection items. Returns their checkpoints."""
    progress = Progress(run, steps=plan.steps * len(trainings))
    checkpoints = {}
    for point, training in trainings.items():
        run.update(summary=f"Training {point.arm} at a learning rate of {point.learning_rate:g}.")
        for rollouts, update in training.steps():
            capacity.step()
            progress.step(
                tokens=rollouts.tokens,
                learning_rate=point.learning_rate,
                reward=float(rollouts.rewards.mean()),
                loss=update.loss,
                largest_logprob_gap=update.logprob_gap,
            )
        name = f"{point.arm}-{point.learning_rate:g}"
        checkpoints[point] = training.learner.save_weights_for_sampler(name).result().path
        sampler = service.create_sampling_client(model_path=checkpoints[point]).result()
        tokenizer = training.learner.get_tokenizer()
        scored = selecting.score(sampler, tokenizer, arm=point.arm, seed=point.seed, checkpoint=checkpoints[point])
        search.record(point.arm, point.learning_rate, scored)
    run.evidence("training.jsonl", "metrics", jsonl(progress.rows))
    return checkpoints


def execute(run: Run, service: tinker.ServiceClient, capacity: CapacityClock) -> None:
    spec = run.spec()
    plan, problems = Plan.of_spec(spec), Problems.of_spec(spec)
    selecting, confirming = evaluator(problems.selection), evaluator(problems.confirmation)
    size, timer = plan.groups_per_batch, FeasibilityTimer()
    batches = PairedBatches.cut(problems.training, size=size, shared=plan.steps, warm_up=plan.warm_up_batches)
    of_pilot = PairedBatches.cut(problems.training[::-1], size=size, shared=PILOT_STEPS, warm_up=1)
    search = LearningRateSearch(run, steps=plan.steps, seeds=(plan.seed,))
    points = list(search.pending())

    with timer.phase("setup"):
        learner = plan.new_learner(service)
        tokenizer = learner.get_tokenizer()
    run.update(
        summary="Checking what can be checked before anything trains.", deviations=[], original_hypothesis_tested=True
    )
    retain_setup(run, plan, learner, {"selection": selecting, "confirmation": confirming})
    refused = [each for each in probe(run, plan, tokenizer.encode("12, 7: 12\n")) if not each.works]
    if refused:
        raise HarnessError(f"The service refuses the arm {refused[0].arm}: {refused[0].refusal}")
    comparison = Comparison(run, confirming, arms=(GROUP, RUNNING))
    comparison.freeze()
    with timer.phase("evaluation", units=len(confirming.items)):
        sampler = service.create_sampling_client(base_model=plan.base_model).result()
        comparison.score(sampler, tokenizer, arm="base", seed=None)

    with timer.phase("training", units=PILOT_STEPS):
        piloted = pilot(service, of_pilot, plan, sorted(point.learning_rate for point in points)[len(points) // 2])
    planned = {
        "training": plan.steps * len(points),
        "evaluation": 3 * len(confirming.items) + len(points) * len(selecting.items),
    }
    source = f"A pilot of {PILOT_STEPS} steps of the running arm, and the evaluation of the base model."
    must_fit(publish_feasibility(run, timer, planned=planned, recovery_seconds=RECOVERY_SECONDS, source=source))
    must_pass(publish_pilot(run, piloted.values, note=f"{PILOT_STEPS} steps of the running arm, then thrown away."))
    [path] = spec["correctness_preflight"]["paths"]
    must_pass(check_loss(run, plan, piloted, path["reference_revision"]))

    learners = start_arms(run, service, plan, learner, points)
    trainings = {
        point: Training(point.arm, point.learning_rate, each, batches.consumption(), plan)
        for point, each in zip(points, learners, strict=True)
    }
    checkpoints = search_rates(run, plan, trainings, search, selecting, service, capacity)
    selection = search.freeze()
    chosen = {arm: Point(arm, search.selected(arm), plan.seed) for arm in (GROUP, RUNNING)}
    pair = {arm: trainings[point].consumption for arm, point in chosen.items()}
    must_pass(publish_manifests(run, f"seed{plan.seed}", pair))

    run.update(summary="Scoring the selected adapters on the problems that confirm.")
    for arm, point in chosen.items():
        sampler = service.create_sampling_client(model_path=checkpoints[point]).result()
        comparison.score(sampler, tokenizer, arm=arm, seed=plan.seed, checkpoint=checkpoints[point], step=plan.steps)
    decision = comparison.conclude(selection=selection)
    scores = ", ".join(f"{arm} {comparison.mean(arm):.3f}" for arm in ("base", GROUP, RUNNING))
    run.finish(
        verdict=decision.verdict,
        outcome_reason=decision.outcome_reason,
        summary=f"Accuracy on the problems that confirm: {scores}.",
        deviations=[],
        original_hypothesis_tested=True,
    )


def main() -> None:
    run = Run.from_env()
    with service_client(name=run.id) as service, capacity_clock(run, service) as capacity, stopped_runs_end(run):
        execute(run, service, capacity)


if __name__ == "__main__":
    main()
