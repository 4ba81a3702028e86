"""Does score centering keep a policy gradient stable whose answers come from weights that are some steps old?

Three arms, alike but for their loss (README.md has the equations):

- `stock`, CENTER=0: the GRPO surrogate, importance sampling with advantages less their group's mean;
- `centered`, CENTER=1: the ratio dropped, and the expected score under the sampler subtracted instead (Marek and
  Ryabinin 2026, their top-k form as independent implementations have it);
- `plain`, CENTER=plain: the ratio dropped and nothing subtracted, which tells what of a difference is centering's.

`rx run laptop.spec.json` starts this script with the addresses of its run and of a training service in its environment.
It trains every arm with every seed of the spec, one after the other; CENTER and SEED narrow a call to one arm and one
seed, and the call after which none is missing decides. What a flag changes is reported as a deviation from the spec. A
run that was interrupted goes on from the last checkpoint of each training (`rx resume`).
"""

import json
import random
import statistics
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import tinker

from research_exchange.client import Run
from research_exchange.harness import (
    Batch,
    CapacityClock,
    Checkpoints,
    Comparison,
    FeasibilityTimer,
    HarnessError,
    Item,
    PairedBatches,
    ProbedArm,
    Progress,
    Task,
    capacity_clock,
    code_revision,
    effective_config,
    jsonl,
    must_fit,
    must_pass,
    probe_arms,
    publish_feasibility,
    publish_pilot,
    report_restore,
    service_client,
    stop_at,
    stopped_runs_end,
    task_named,
    work_folder,
)

if TYPE_CHECKING or __package__:
    from experiments.score_centering.centering import losses, preflights
    from experiments.score_centering.centering.plan import Asked, Plan, parser
    from experiments.score_centering.centering.stopped import diagnose
    from experiments.score_centering.centering.suitability import must_suit
    from experiments.score_centering.centering.training import Point, Training, adamw, new_learner
else:  # A run gets a copy of this folder alone.
    from centering import losses, preflights
    from centering.plan import Asked, Plan, parser
    from centering.stopped import diagnose
    from centering.suitability import must_suit
    from centering.training import Point, Training, adamw, new_learner

GATES = ("activation_gate", "correctness_preflight", "restoration_preflight")
"""What has to pass before anything trains."""
RECOVERY_SECONDS = 120
"""Held back for trouble, in the projection of how long the run will take."""
BASE = "base"


def task_of(plan: Plan, given: Namespace) -> Task:
    return task_named(plan.task, evaluation=plan.evaluation_items, max_tokens=plan.max_tokens, gsm8k_folder=given.gsm8k)


class Experiment:
    """One call of the script for a run."""

    def __init__(self, run: Run, given: Namespace, service: tinker.ServiceClient, capacity: CapacityClock) -> None:
        self.run, self.service, self.capacity = run, service, capacity
        self.spec = run.spec()
        self.asked = Asked.of(self.spec, given)
        self.plan = self.asked.plan
        self.stated = self.plan.changes(Plan.of_spec(self.spec))
        self.task = task_of(self.plan, given)
        self.evaluator = self.task.evaluator()
        self.comparison = Comparison(run, self.evaluator, arms=list(self.plan.arms), folder=work_folder())
        self.points = [Point(arm, seed) for arm in self.plan.arms for seed in self.plan.seeds]
        self.checkpoints = {
            point: Checkpoints(run, point.arm, seed=point.seed, every=self.plan.evaluate_every) for point in self.points
        }
        self.timer = FeasibilityTimer()
        with self.timer.phase("setup"):
            self.base = service.create_sampling_client(base_model=self.plan.base_model).result()
            self.tokenizer = self.base.get_tokenizer()

    def execute(self) -> None:
        self.run.update(summary="Scoring the base model on the held-out problems.", **self.stated)
        if self.plan.weight == losses.Weight.IDENTITY:
            print(losses.NO_OP)
            self.run.update(summary=losses.NO_OP)
        self.retain_setup()
        self.comparison.freeze()
        with self.timer.phase("evaluation", units=self.plan.evaluation_items):
            self.comparison.score(self.base, self.tokenizer, arm=BASE, seed=None)
        learners = {} if self.is_checked() else self.check()
        trainings = {point: self.training(point, learners) for point in self.points}
        self.train(trainings)
        missing = [point for point, training in trainings.items() if not training.is_done]
        if missing:
            self.run.update(summary=f"Still to train: {', '.join(map(str, missing))}.")
            print(f"Trained what was asked for; still to train: {', '.join(map(str, missing))}.")
        else:
            self.conclude()

    def retain_setup(self) -> None:
        """What was run, from which code, with which settings: a reviewer starts here."""
        run, script = self.run, Path(__file__)
        files = [script, *sorted(Path(losses.__file__).parent.glob("*.py"))]
        for file in files:
            run.evidence(file.name if file.parent == script.parent else f"centering-{file.name}", "script", file)
        run.evidence("code-revision.json", "code_revision", code_revision(script))
        config = effective_config(
            **asdict(self.plan),
            task_record=self.task.record(),
            evaluator=self.evaluator.provenance,
            mismatch=f"answers are sampled from the weights of {self.plan.stale_steps} steps before, in every arm",
        )
        run.evidence("effective-config.json", "effective_config", config)

    # --- Before anything trains ---

    def is_checked(self) -> bool:
        """Whether an earlier call of this run has passed all checks, and started every training."""
        return all(self.run.gate(gate).status == "passed" for gate in GATES)

    def check(self) -> dict[Point, tinker.TrainingClient]:
        """All checks; where one stops the run, the reason is on record. Returns the trainings' clients."""
        self.probe()
        self.run.update(summary=f"A pilot of {preflights.pilot_steps(self.plan)} steps, and the checks of the losses.")
        steps = preflights.pilot_steps(self.plan)
        with self.timer.phase("training", units=steps):
            piloted = preflights.pilot(self.service, self.tokenizer, self.task, self.pilot_batches(), self.plan)
        evaluations = -(-self.plan.steps // self.plan.evaluate_every) * len(self.points)
        projection = publish_feasibility(
            self.run,
            self.timer,
            planned={
                "training": self.plan.steps * len(self.points),
                "evaluation": self.plan.evaluation_items * (1 + evaluations),
            },
            recovery_seconds=RECOVERY_SECONDS,
            source=f"A pilot of {steps} steps of the centered arm, and the evaluation of the base model.",
            changed=self.plan.sizes(self.spec),
        )
        must_fit(projection)
        note = f"{steps} steps of the centered arm, the last {preflights.BEYOND_LAG} at the full age of the sampler."
        activation = publish_pilot(self.run, piloted.values, note=note)
        if not activation.may_go_on:
            diagnosis = diagnose(activation, self.plan, piloted)
            diagnosis.retain(self.run)
            stop_at(self.run, activation, summary=diagnosis.summary)
            raise SystemExit(0)
        [pinned] = {path["reference_revision"] for path in self.spec["correctness_preflight"]["paths"]}
        must_pass(preflights.check_losses(self.run, self.plan, piloted, pinned))
        start, learners = preflights.start_arms(self.run, self.service, self.plan, self.task, self.points)
        for point, learner in learners.items():
            self.checkpoints[point].save(learner, 0)
        must_pass(start.publish())
        return learners

    def probe(self) -> None:
        """Whether the service has what the arms need, and takes a step of each; in a session that is then closed."""
        with service_client(name=f"{self.run.id} probe") as service:
            arm = ProbedArm(lambda: new_learner(service, self.plan), adamw(self.plan))
            example = self.tokenizer.encode(self.task.prompt(self.task.training[0]))
            probes = probe_arms(self.run, dict.fromkeys(self.plan.arms, arm), example=example)
            if refused := [each for each in probes if not each.works]:
                raise HarnessError(f"The service refuses the arm {refused[0].arm}: {refused[0].refusal}")
            must_suit(service, self.tokenizer, self.task, self.plan)

    def pilot_batches(self) -> PairedBatches[Item]:
        """From the end of the training problems, which no arm gets to."""
        size, steps = self.plan.groups_per_batch, preflights.pilot_steps(self.plan)
        return PairedBatches.cut(self.task.training[::-1], size=size, shared=steps)

    def batches(self, seed: int) -> Sequence[Batch[Item]]:
        """The same for all arms of a seed: the first problems that training takes, in an order of the seed's own."""
        size, steps = self.plan.groups_per_batch, self.plan.steps
        kept = len(self.task.training) - size * preflights.pilot_steps(self.plan)
        problems = list(self.task.training[: max(0, kept)])
        random.Random(seed).shuffle(problems)
        return PairedBatches.cut(problems, size=size, shared=steps).shared

    # --- The trainings ---

    def training(self, point: Point, learners: Mapping[Point, tinker.TrainingClient]) -> Training:
        """From the client that just started it, or from its last checkpoint."""
        checkpoints = self.checkpoints[point]

        def never() -> tinker.TrainingClient:
            raise HarnessError(f"{point} has no start in this run's records; start a new run.")

        def start() -> tinker.TrainingClient:
            if point in learners:
                return learners[point]
            learner = checkpoints.learner(self.service, never)
            must_pass(report_restore(self.run, self.service, learner, arm=point.arm))
            return learner

        return Training(
            point,
            self.plan,
            self.task,
            self.service,
            start,
            self.tokenizer,
            self.batches(point.seed),
            evaluator=self.evaluator,
            checkpoints=checkpoints,
        )

    def train(self, trainings: Mapping[Point, Training]) -> None:
        """Those that are asked for and not done; each that is done is reported."""
        done = sum(checkpoints.step for checkpoints in self.checkpoints.values())
        progress = Progress(self.run, steps=self.plan.steps * len(trainings), done=done)
        for point, training in trainings.items():
            if not training.is_done and point.arm in self.asked.arms and point.seed in self.asked.seeds:
                self.run.update(summary=f"Training {point.arm} with seed {point.seed}.")
                for step in training.steps():
                    self.capacity.step()
                    reward = step.signals["reward_mean"]
                    progress.step(tokens=step.rollouts.tokens, reward=reward, seed=point.seed, **step.signals)
            if training.is_done:
                self.report(training, [trainings[each] for each in self.points if each.arm == point.arm])

    def report(self, training: Training, siblings: Sequence[Training]) -> None:
        """The final answers and the curves of a training; and of its arm, once all its seeds are done, the drops."""
        training.curve[0] = self.comparison.mean(BASE)
        self.comparison.add(training.score(self.plan.steps), step=self.plan.steps)
        identity = {"arm": training.point.arm, "seed": training.point.seed}
        accuracies = [{**identity, "step": step, "accuracy": training.curve[step]} for step in sorted(training.curve)]
        self.run.evidence(f"training-{training.point}.jsonl", "metrics", jsonl([*accuracies, *training.rows]))
        if all(each.is_done and 0 in each.curve for each in siblings):
            self.run.update(metrics={"arms": {training.point.arm: drops(siblings)}})

    def conclude(self) -> None:
        decision = self.comparison.conclude()
        scores = ", ".join(f"{arm} {self.comparison.mean(arm):.3f}" for arm in (BASE, *self.plan.arms))
        self.run.finish(
            verdict=decision.verdict,
            outcome_reason=decision.outcome_reason,
            summary=f"Accuracy after {self.plan.steps} steps, sampled {self.plan.stale_steps} steps behind: {scores}.",
            **self.stated,
        )


def drops(trainings: Sequence[Training]) -> dict[str, float]:
    """Peak accuracy less final accuracy over the scheduled evaluations, the start included; and its mean over seeds.

    A maximum over several evaluations is biased upwards, so the drop is reported and decides nothing.
    """
    found = {}
    for training in trainings:
        curve, seed = training.curve, training.point.seed
        found[f"peak_accuracy_seed{seed}"] = max(curve.values())
        found[f"final_accuracy_seed{seed}"] = curve[max(curve)]
        found[f"peak_minus_final_seed{seed}"] = max(curve.values()) - curve[max(curve)]
    return {
        **found,
        "peak_minus_final": statistics.fmean(found[f"peak_minus_final_seed{each.point.seed}"] for each in trainings),
    }


def measure_base(given: Namespace) -> None:
    """Greedy accuracy of the base model on the held-out problems, printed as one line of JSON."""
    plan = Asked.of(json.loads(given.spec.read_text()), given).plan
    task = task_of(plan, given)
    with service_client(name="base accuracy") as service:
        sampler = service.create_sampling_client(base_model=plan.base_model).result()
        score = task.evaluator().score(sampler, sampler.get_tokenizer(), arm=BASE, seed=None)
    row = {
        "base_model": plan.base_model,
        "task": task.name,
        "max_tokens": task.max_tokens,
        "items": len(score.answers),
        "right": sum(answer.value for answer in score.answers),
        "accuracy": score.mean,
        "evaluator_id": score.evaluator_id,
    }
    print(json.dumps(row))


def main() -> None:
    given = parser().parse_args()
    if given.measure_base:
        try:
            measure_base(given)
        except HarnessError as error:
            sys.exit(str(error))
        return
    run = Run.from_env()
    with service_client(name=run.id) as service, capacity_clock(run, service) as capacity, stopped_runs_end(run):
        Experiment(run, given, service, capacity).execute()


if __name__ == "__main__":
    main()
