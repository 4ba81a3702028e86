"""Teach a small language model to add, by reinforcement learning, and find out whether it really learned.

The training is GRPO (Shao et al. 2024) through the stock `tinker` SDK: sample a group of answers to each problem,
reward the right ones, and make those answers more likely that did better than the rest of their group. Compared are
the trained adapter and the untrained one, on problems that training never saw.

`rx run spec.json` starts this script with the addresses of its run and of a training service in its environment.
Without a flag it does exactly what the spec says; what a flag changes is reported as a deviation from it.
"""

import argparse
import itertools
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker.types import AdamParams, Datum

from research_exchange.client import Run
from research_exchange.harness import (
    Comparison,
    Evaluator,
    FeasibilityTimer,
    Item,
    Progress,
    capacity_clock,
    code_revision,
    effective_config,
    jsonl,
    largest_logprob_gap,
    must_fit,
    must_pass,
    policy_datum,
    publish_feasibility,
    publish_pilot,
    sample_groups,
    service_client,
    stopped_runs_end,
)

PROMPT = "1+2=3\n7+8=15\n12+6=18\n{question}="
"""Three solved problems show the form; the answer is the rest of the line."""
ANSWER_TOKENS = 4
STOP = "\n"
HELD_OUT = 200
PILOT_STEPS = 2
RECOVERY_SECONDS = 60
"""Held back for trouble, in the projection of how long the run will take."""


def first_line(completion: str) -> str:
    """The answer in a completion: everything up to the end of the line, exactly as it stands."""
    return completion.split("\n", 1)[0]


# --- The plan: what the spec says, and what the command line changes ---


@dataclass(frozen=True)
class Plan:
    """Everything that defines the training."""

    base_model: str
    lora_rank: int
    learning_rate: float
    steps: int
    groups_per_batch: int
    group_size: int
    reward: str
    """exact_match; or, as a control, shuffled: the same rewards, dealt out among the answers of a step at random."""
    seed: int

    @classmethod
    def of_spec(cls, spec: dict[str, Any]) -> "Plan":
        trained = next(arm for arm in spec["arms"] if arm["name"] == "trained")
        return cls(
            base_model=spec["base_model"],
            lora_rank=spec["lora_rank"],
            learning_rate=spec["optimizer"]["lr"],
            steps=spec["steps"],
            groups_per_batch=trained["groups_per_batch"],
            group_size=trained["group_size"],
            reward=trained["reward"],
            seed=trained["seed"],
        )

    def with_flags(self) -> "Plan":
        """This plan with what the command line changes."""
        parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
        parser.add_argument("--learning-rate", type=float, default=self.learning_rate)
        parser.add_argument("--steps", type=int, default=self.steps)
        parser.add_argument("--seed", type=int, default=self.seed)
        parser.add_argument(
            "--shuffle-rewards", dest="reward", action="store_const", const="shuffled", default=self.reward
        )
        return replace(self, **vars(parser.parse_args()))

    def changes(self, written: "Plan") -> dict[str, Any]:
        """What differs from the plan as the spec writes it, in the words of the Exchange's contract (R-075, R-078)."""
        before, after = asdict(written), asdict(self)
        same_objective = self.reward == written.reward
        return {
            "deviations": [
                {
                    "field": "objective" if name == "reward" else name,
                    "original": str(before[name]),
                    "effective": str(after[name]),
                    "reason": "Asked for on the command line of train.py.",
                }
                for name in before
                if before[name] != after[name]
            ],
            "original_hypothesis_tested": same_objective,
            "tested_instead": "" if same_objective else f"The same training with the reward {self.reward}.",
        }


# --- The problems ---


def problems() -> list[Item]:
    """All 1000 pairs a+b with a < 100 and b < 10, in a fixed random order; the first HELD_OUT are never trained on."""
    pairs = [Item(f"{a}+{b}", f"{a}+{b}", str(a + b)) for a in range(100) for b in range(10)]
    random.Random("addition").shuffle(pairs)
    return pairs


# --- One step of GRPO ---


@dataclass(frozen=True)
class Rollouts:
    """The answers of one step, graded and ready to learn from."""

    rewards: NDArray[np.float64]
    """[problems, answers per problem], 1 for an exact match."""
    data: list[Datum]
    """The sequences that have an advantage; in a group rewarded all alike none has."""
    tokens: int
    """Of all prompts and answers."""
    answer_tokens: int
    """Of the answers in `data`, over which the loss is summed."""


def share_with_signal(rewards: NDArray[np.float64]) -> float:
    """Share of problems whose answers were not rewarded all alike; from the others there is nothing to learn."""
    return float((rewards.std(axis=1) > 0).mean())


def sample(sampler: tinker.SamplingClient, tokenizer: Any, batch: list[Item], plan: Plan, step: int) -> Rollouts:
    """A group of answers to each problem of the batch, with rewards and the advantages that follow from them."""
    prompts = [tokenizer.encode(PROMPT.format(question=problem.question)) for problem in batch]
    groups = sample_groups(
        sampler,
        prompts,
        group_size=plan.group_size,
        max_tokens=ANSWER_TOKENS,
        stop=[STOP],
        seed=1_000_000 * plan.seed + 1_000 * step,
    )

    rewards = np.array(
        [
            [float(first_line(tokenizer.decode(answer.tokens)) == problem.reference) for answer in group]
            for problem, group in zip(batch, groups, strict=True)
        ]
    )
    if plan.reward == "shuffled":
        rewards = np.random.default_rng([plan.seed, step]).permutation(rewards.ravel()).reshape(rewards.shape)
    advantages = rewards - rewards.mean(axis=1, keepdims=True)

    learned = [
        (prompt, answer, advantage)
        for prompt, group, row in zip(prompts, groups, advantages, strict=True)
        for answer, advantage in zip(group, row, strict=True)
        if advantage != 0
    ]
    return Rollouts(
        rewards=rewards,
        data=[policy_datum(prompt, answer, advantage) for prompt, answer, advantage in learned],
        tokens=sum(len(prompt) * len(group) for prompt, group in zip(prompts, groups, strict=True))
        + sum(len(answer.tokens) for group in groups for answer in group),
        answer_tokens=sum(len(answer.tokens) for _, answer, _ in learned),
    )


@dataclass(frozen=True)
class Update:
    """What one optimizer step did."""

    loss: float
    """Mean over the answer tokens, before the step; 0 when there was nothing to learn from."""
    logprob_gap: float
    """See `largest_logprob_gap`."""
    applied: dict[str, float]
    """The service's own record of the step, such as its learning rate and gradient norm, where it keeps one."""


def update(learner: tinker.TrainingClient, rollouts: Rollouts, learning_rate: float) -> Update:
    """One gradient of the `importance_sampling` loss and one step of AdamW; neither without anything to learn from."""
    if not rollouts.data:
        return Update(loss=0.0, logprob_gap=0.0, applied={})
    gradient = learner.forward_backward(rollouts.data, loss_fn="importance_sampling")
    step = learner.optim_step(AdamParams(learning_rate=learning_rate))
    output = gradient.result()
    return Update(
        loss=output.metrics["loss:sum"] / rollouts.answer_tokens,
        logprob_gap=largest_logprob_gap(rollouts.data, output),
        applied=dict(step.result().metrics or {}),
    )


# --- The whole experiment ---


def new_learner(service: tinker.ServiceClient, plan: Plan) -> tinker.TrainingClient:
    return service.create_lora_training_client(plan.base_model, rank=plan.lora_rank, seed=plan.seed).result()


def train(
    learner: tinker.TrainingClient, problems: list[Item], plan: Plan, steps: int
) -> Iterator[tuple[Rollouts, Update]]:
    """The first `steps` steps of the plan, each on the next problems of the list; yields each as it is done."""
    tokenizer = learner.get_tokenizer()
    upcoming = itertools.cycle(problems)
    for step in range(steps):
        batch = list(itertools.islice(upcoming, plan.groups_per_batch))
        sampler = learner.save_weights_and_get_sampling_client().result()
        rollouts = sample(sampler, tokenizer, batch, plan, step)
        yield rollouts, update(learner, rollouts, plan.learning_rate * (1 - step / plan.steps))


def pilot(learner: tinker.TrainingClient, problems: list[Item], plan: Plan) -> dict[str, float | str]:
    """What the activation gate judges, measured in the first steps of a training in the full regime."""
    steps = list(train(learner, problems, plan, PILOT_STEPS))
    rewards = np.concatenate([rollouts.rewards for rollouts, _ in steps])
    return {
        "executed_base_model": str(learner.get_info().model_data.model_name),
        "rollouts_per_problem": rewards.shape[1],
        "rollouts_per_step": rewards.size / PILOT_STEPS,
        "batch_mean_reward": float(rewards.mean()),
        "groups_with_signal": share_with_signal(rewards),
        "largest_logprob_gap": max(done.logprob_gap for _, done in steps),
    }


def check_before_training(
    run: Run, service: tinker.ServiceClient, problems: list[Item], plan: Plan, timer: FeasibilityTimer
) -> None:
    """Ask the Exchange whether the full training may start, after a pilot with an adapter that is then thrown away."""
    run.update(summary=f"Checking in a pilot of {PILOT_STEPS} steps that there is something to learn from.")
    with timer.phase("training", units=PILOT_STEPS):
        values = pilot(new_learner(service, plan), problems, plan)
    projection = publish_feasibility(
        run,
        timer,
        planned={"training": plan.steps, "evaluation": 2 * HELD_OUT},
        recovery_seconds=RECOVERY_SECONDS,
        source=f"A pilot of {PILOT_STEPS} steps in the full regime, and the evaluation of the untrained adapter.",
        changed={"base_model": plan.base_model, "steps": plan.steps},
    )
    must_fit(projection)
    must_pass(publish_pilot(run, values, note=f"{PILOT_STEPS} steps, then thrown away."))


def retain_setup(run: Run, learner: tinker.TrainingClient, evaluator: Evaluator, plan: Plan) -> None:
    """What was run, from which code, with which settings: a reviewer starts here."""
    run.evidence("train.py", "script", Path(__file__))
    run.evidence("code-revision.json", "code_revision", code_revision(Path(__file__)))
    settings = effective_config(**asdict(plan), evaluator=evaluator.provenance, service=learner.get_info())
    run.evidence("effective-config.json", "effective_config", settings)


def main() -> None:
    run = Run.from_env()
    written = Plan.of_spec(run.spec())
    plan = written.with_flags()
    held_out, training = problems()[:HELD_OUT], problems()[HELD_OUT:]
    random.Random(plan.seed).shuffle(training)
    for_pilot = PILOT_STEPS * plan.groups_per_batch
    evaluator = Evaluator(
        metric="accuracy",
        items=tuple(held_out),
        prompt_template=PROMPT,
        parser=first_line,
        max_tokens=ANSWER_TOKENS,
        stop=(STOP,),
    )
    comparison = Comparison(run, evaluator, arms=("trained", "untrained"))

    timer = FeasibilityTimer()
    with service_client(name=run.id) as service, capacity_clock(run, service) as capacity, stopped_runs_end(run):
        with timer.phase("setup"):
            learner = new_learner(service, plan)
            tokenizer = learner.get_tokenizer()

        run.update(summary=f"Scoring the untrained adapter on {HELD_OUT} held-out problems.", **plan.changes(written))
        retain_setup(run, learner, evaluator, plan)
        comparison.freeze()
        with timer.phase("evaluation", units=HELD_OUT):
            sampler = learner.save_weights_and_get_sampling_client().result()
            comparison.add(evaluator.score(sampler, tokenizer, arm="untrained", seed=plan.seed))

        check_before_training(run, service, training[:for_pilot], plan, timer)

        run.update(summary=f"Training for {plan.steps} steps of {plan.groups_per_batch} problems.")
        progress = Progress(run, steps=plan.steps, seconds_after=timer.seconds("evaluation"))
        for rollouts, done in train(learner, training[for_pilot:], plan, plan.steps):
            capacity.step()
            progress.step(
                tokens=rollouts.tokens,
                reward=float(rollouts.rewards.mean()),
                loss=done.loss,
                groups_with_signal=share_with_signal(rollouts.rewards),
                largest_logprob_gap=done.logprob_gap,
                **{name: done.applied[name] for name in ("learning_rate", "grad_norm") if name in done.applied},
            )
        run.evidence("training.jsonl", "metrics", jsonl(progress.rows))

        run.update(summary=f"Scoring the trained adapter on the same {HELD_OUT} problems.")
        checkpoint = learner.save_weights_for_sampler("trained").result().path
        sampler = service.create_sampling_client(model_path=checkpoint).result()
        scored = evaluator.score(sampler, tokenizer, arm="trained", seed=plan.seed, checkpoint=checkpoint)
        comparison.add(scored, step=plan.steps)

        decision = comparison.conclude()
        before, after = comparison.mean("untrained"), comparison.mean("trained")
        run.finish(
            verdict=decision.verdict,
            outcome_reason=decision.outcome_reason,
            summary=f"Accuracy on held-out problems went from {before:.3f} to {after:.3f} in {plan.steps} steps.",
            **plan.changes(written),
        )


if __name__ == "__main__":
    main()
