"""GS1 against GRPO: does one rollout for each of 64 prompts do as well as eight for each of 8?

Both arms get 64 rollouts a step, the stock `importance_sampling` loss and AdamW, from one start. GRPO (Shao et al.
2024) holds a reward against the mean of its prompt's own group. GS1 has no groups: it holds a reward against those of
the other prompts, weighted by how similar they are. What is under test is GS1 as `reference.py` defines it.

`rx run spec.json` starts this script with the addresses of its run and of a training service in its environment.
Without a flag it does exactly what the spec says; what a flag changes is reported as a deviation from it. A run that
was interrupted goes on from the last checkpoint of each arm (`rx resume`).
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tinker

from research_exchange.client import Run
from research_exchange.harness import (
    CapacityClock,
    Checkpoints,
    Comparison,
    Evaluator,
    FeasibilityTimer,
    HarnessError,
    ProbedArm,
    Progress,
    Restoration,
    capacity_clock,
    code_revision,
    effective_config,
    jsonl,
    loss_of,
    must_fit,
    must_pass,
    probe_arms,
    publish_feasibility,
    publish_pilot,
    report_restore,
    restore_equivalence,
    scored_datum,
    service_client,
    stop_at,
    stopped_runs_end,
    work_folder,
)
from research_exchange.harness.tasks import Task

if TYPE_CHECKING or __package__:
    from experiments.gs1_vs_grpo.gs1.baselines import contributors
    from experiments.gs1_vs_grpo.gs1.parity import check_parity
    from experiments.gs1_vs_grpo.gs1.pilot import PILOT_STEPS, Pilot, pilot, piloted_arms
    from experiments.gs1_vs_grpo.gs1.plan import Arm, Options, Plan, options
    from experiments.gs1_vs_grpo.gs1.rollouts import sample, update, worth
    from experiments.gs1_vs_grpo.gs1.stopped import diagnose, planned_table
    from experiments.gs1_vs_grpo.gs1.training_log import TrainingLog
else:  # A run gets a copy of this folder alone.
    from gs1.baselines import contributors
    from gs1.parity import check_parity
    from gs1.pilot import PILOT_STEPS, Pilot, pilot, piloted_arms
    from gs1.plan import Arm, Options, Plan, options
    from gs1.rollouts import sample, update, worth
    from gs1.stopped import diagnose, planned_table
    from gs1.training_log import TrainingLog

CHECKPOINT_EVERY = 5
"""Steps; an interrupted run takes at most so many of an arm again."""
RECOVERY_SECONDS = 120
"""Held back for trouble, in the projection of how long the run will take."""
BASE = "base"


class Experiment:
    """One run of the plan."""

    def __init__(self, run: Run, given: Options, service: tinker.ServiceClient, capacity: CapacityClock) -> None:
        written = Plan.of_spec(run.spec())
        self.run = run
        self.given = given
        self.service = service
        self.capacity = capacity
        self.plan = written.changed(given)
        self.trained = self.plan.trained(given.advantage_mode)
        self.stated = self.plan.deviations(written, given)
        self.folder = given.log_path or work_folder()
        self.task = self.plan.load_task(given.gsm8k)
        self.evaluator = self.task.evaluator()
        self.comparison = Comparison(run, self.evaluator, arms=[arm.name for arm in self.plan.arms], folder=self.folder)
        self.checkpoints = {
            arm.name: Checkpoints(run, arm.name, every=CHECKPOINT_EVERY, seed=arm.seed, folder=self.folder)
            for arm in self.plan.arms
        }

    def execute(self) -> None:
        """All of it, or what an interruption left of it."""
        timer = FeasibilityTimer()
        with timer.phase("setup"):
            sampler = self.service.create_sampling_client(base_model=self.plan.base_model).result()
            tokenizer = sampler.get_tokenizer()
        self.run.update(summary="Asking the base model.", **self.stated)
        self._retain_setup()
        self.comparison.freeze()
        with timer.phase("evaluation", units=len(self.evaluator.items)):
            self.comparison.score(sampler, tokenizer, arm=BASE, seed=None)
        learners: dict[str, tinker.TrainingClient] = {}
        if any(checkpoints.state is None for checkpoints in self.checkpoints.values()):
            piloted = self._pilot(timer)
            if piloted is None:
                return
            must_pass(check_parity(self.run, self.plan, piloted))
            learners = self._start()
        for arm in self.trained:
            checkpoint = self._train(arm, learners.get(arm.name))
            sampler = self.service.create_sampling_client(model_path=checkpoint).result()
            self.comparison.score(
                sampler, tokenizer, arm=arm.name, seed=arm.seed, checkpoint=checkpoint, step=arm.steps
            )
        self._conclude()

    # --- Before anything trains ---

    def _retain_setup(self) -> None:
        """What is run, from which code, with which settings: a reviewer starts here."""
        self.run.evidence("gs1_vs_grpo.py", "script", Path(__file__))
        for file in sorted((Path(__file__).parent / "gs1").glob("*.py")):
            self.run.evidence(f"gs1.{file.name}", "script", file)
        self.run.evidence("code-revision.json", "code_revision", code_revision(Path(__file__)))
        settings = {
            **asdict(self.plan),
            "similarity": self.plan.similarity.record(),
            "trained": [arm.name for arm in self.trained],
            "task": self.task.record(),
            "evaluator": self.evaluator.provenance,
        }
        self.run.evidence("effective-config.json", "effective_config", effective_config(**settings))

    def _pilot(self, timer: FeasibilityTimer) -> Pilot | None:
        """A few steps of both arms in a session of their own; None where the gate stops the run and it has ended."""
        self.run.update(summary=f"Piloting {PILOT_STEPS} steps of each arm with adapters that are thrown away.")
        with service_client(name=f"{self.run.id} pilot") as service:
            self._probe(service)
            with timer.phase("training", units=PILOT_STEPS * len(piloted_arms(self.plan))):
                piloted = pilot(service, self.plan, self.task)
        piloted.exhibit.retain(self.run, "probe")
        steps = sum(arm.steps for arm in self.trained)
        source = f"A pilot of {PILOT_STEPS} steps of each arm, and the evaluation of the base model."
        projection = publish_feasibility(
            self.run,
            timer,
            planned={"training": steps, "evaluation": (1 + len(self.trained)) * len(self.evaluator.items)},
            recovery_seconds=RECOVERY_SECONDS,
            source=source,
            changed={
                "base_model": self.plan.base_model,
                "steps": self.plan.treatment.steps,
                "batch_size": self.plan.treatment.rollouts_per_step,
                "eval": {**self.run.spec()["eval"], "n_examples": self.plan.eval_items},
            },
        )
        must_fit(projection)
        note = (
            f"{PILOT_STEPS} steps of each arm, then thrown away. Of the weights: computed from {piloted.exhibit.name}."
        )
        reading = publish_pilot(self.run, piloted.values, note=note)
        if reading.may_go_on:
            return piloted
        diagnosis = diagnose(self.run, reading, self.plan, self.task, piloted)
        stop_at(self.run, reading, summary=diagnosis.summary)
        return None

    def _probe(self, service: tinker.ServiceClient) -> None:
        """Whether the service takes each arm's client and its step."""
        example = (
            service.create_sampling_client(base_model=self.plan.base_model).result().get_tokenizer().encode("1 2 3")
        )
        arms = {arm.name: ProbedArm(self._creates(service, arm), self.plan.adamw()) for arm in self.plan.arms}
        for probe in probe_arms(self.run, arms, example=example):
            if not probe.works:
                raise HarnessError(f"The service refuses the arm {probe.arm}: {probe.refusal}")

    def _start(self) -> dict[str, tinker.TrainingClient]:
        """A client for each arm, all from one adapter, with proof of it on record and a checkpoint to go on from."""
        self.run.update(summary="Starting both arms from one adapter.")
        origin = self.plan.new_learner(self.service, self.plan.baseline)
        tokenizer, first = origin.get_tokenizer(), self.task.training[0]
        batch = [scored_datum(tokenizer.encode(f"{self.task.prompt(first)} {first.reference}\n"))]
        start = Restoration.begin(self.run, self.service, origin, batch)
        learners = {arm.name: start.arm(arm.name, self._creates(self.service, arm)) for arm in self.plan.arms}
        start.equivalence = restore_equivalence(
            self.service,
            origin,
            lambda client: loss_of(client.forward_backward(batch, "cross_entropy").result()),
            self.plan.adamw(),
        )
        must_pass(start.publish())
        for name, learner in learners.items():
            self.checkpoints[name].save(learner, 0)
        return learners

    def _creates(self, service: tinker.ServiceClient, arm: Arm) -> Callable[[], tinker.TrainingClient]:
        return lambda: self.plan.new_learner(service, arm)

    # --- Training ---

    def _train(self, arm: Arm, learner: tinker.TrainingClient | None) -> str:
        """Train an arm from its last checkpoint to its end; returns what its sampler is served from."""
        checkpoints = self.checkpoints[arm.name]
        if "sampler" in checkpoints.notes:
            return str(checkpoints.notes["sampler"])
        self.run.update(summary=f"Training {arm.name} ({arm.mode}), {arm.steps} steps.")
        if learner is None:
            learner = checkpoints.learner(self.service, self._creates(self.service, arm))
            must_pass(report_restore(self.run, self.service, learner, arm=arm.name))
        log = TrainingLog(self.folder / f"training-{arm.name}.jsonl", arm.name, arm.seed, done=checkpoints.step)
        progress = Progress(self.run, steps=sum(each.steps for each in self.trained), done=self._steps_done)
        tokenizer = learner.get_tokenizer()
        for step in range(checkpoints.step, arm.steps):
            sampler = learner.save_weights_and_get_sampling_client().result()
            rollouts = sample(sampler, tokenizer, self.task, arm, step)
            value = worth(rollouts, arm, self.plan, step)
            signals = update(learner, rollouts, value, self.plan).signals
            if value.weights is not None:
                signals["contributors"] = float(np.median(contributors(value.weights)))
            self.capacity.step()
            log.add(step + 1, signals)
            progress.step(tokens=rollouts.tokens, **signals)
            if step + 1 < arm.steps:
                checkpoints.after(learner, step + 1)
        sampled_from: str = learner.save_weights_for_sampler(f"{arm.name}-final").result().path
        checkpoints.save(learner, arm.steps, sampler=sampled_from)
        self.run.evidence(log.path.name, "metrics", jsonl(log.rows))
        return sampled_from

    @property
    def _steps_done(self) -> int:
        return sum(self.checkpoints[arm.name].step for arm in self.trained)

    def _conclude(self) -> None:
        scored = [BASE, *(arm.name for arm in self.trained)]
        scores = ", ".join(f"{name} {self.comparison.mean(name):.3f}" for name in scored)
        decision = self.comparison.conclude()
        is_whole = {arm.name for arm in self.trained} == {arm.name for arm in self.plan.arms}
        self.run.finish(
            status="succeeded" if is_whole else "failed",
            verdict=decision.verdict,
            outcome_reason=decision.outcome_reason if is_whole else "incomplete_execution",
            summary=f"Accuracy on the problems held out: {scores}.",
            **self.stated,
        )


def measure_base(plan: Plan, task: Task, given: Options) -> Mapping[str, Any]:
    """The base model's own accuracy, greedily decoded, without a run."""
    evaluator: Evaluator = task.evaluator()
    with service_client(name="gs1_vs_grpo base") as service:
        sampler = service.create_sampling_client(base_model=plan.base_model).result()
        score = evaluator.score(sampler, sampler.get_tokenizer(), arm=BASE, seed=None, folder=given.log_path)
    right = sum(answer.value for answer in score.answers)
    return {
        "model": plan.base_model,
        "task": task.name,
        "items": len(score.answers),
        "right": int(right),
        "accuracy": score.mean,
    }


def similarity_table(plan: Plan, task: Task) -> str:
    """What each temperature makes of the prompts that the treatment is going to read, as a Markdown table."""
    rows = [
        f"| {row.tau:g} | {row.lowest:.1f} | {row.median:.1f} | {row.highest:.1f} |"
        for row in planned_table(plan, task)
    ]
    head = (
        f"{plan.similarity.record()['call']}, {plan.treatment.steps} steps of {plan.treatment.groups_per_batch} prompts"
    )
    columns = "| tau | contributors, lowest step | median | highest step |\n|---|---|---|---|"
    return "\n".join([head, "", columns, *rows])


def main() -> None:
    given = options()
    if given.base_url:
        os.environ["TINKER_BASE_URL"] = given.base_url  # Where every client, and the clock of its refusals, finds it.
    if given.measure_base or given.similarity_table:
        plan = Plan.of_spec(json.loads(given.spec.read_bytes())).changed(given)
        task = plan.load_task(given.gsm8k)
        print(json.dumps(measure_base(plan, task, given)) if given.measure_base else similarity_table(plan, task))
        return
    run = Run.from_env()
    with (
        service_client(name=run.id) as service,
        capacity_clock(run, service) as capacity,
        stopped_runs_end(run),
    ):
        Experiment(run, given, service, capacity).execute()


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
