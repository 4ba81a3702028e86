"""Does a policy gradient need groups for its baseline? Two arms, trained alike but for what a reward is held against.

The `group` arm is GRPO (Shao et al. 2024): an answer is worth its reward less the mean reward of all answers to the
same problem. The `running` arm holds it against one number, the mean reward of the batch before; its loss is a custom
one, computed here and sent with `forward_backward_custom`. The task is to say which of two numbers is larger.

`rx run paired.spec.json` starts this script with the addresses of its run and of a training service in its environment.
It shows what a comparison of trained arms takes: one start for both, a loss that is checked before it trains, the same
batches in the same order, learning rates chosen on other problems than those that decide. Every check is one call of
`research_exchange.harness`, and the Exchange says what it shows.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tinker
import torch
from numpy.typing import NDArray
from tinker.types import AdamParams, Datum
from tinker.types.optimizer import OptimizerConfigBase

from research_exchange.client import GateReading, Run
from research_exchange.harness import (
    CapacityClock,
    Comparison,
    Consumption,
    CorrectnessPreflight,
    Evaluator,
    FeasibilityTimer,
    FixedState,
    HarnessError,
    Item,
    LearningRateSearch,
    LossPath,
    PairedBatches,
    Point,
    Probe,
    ProbedArm,
    Progress,
    ReferenceLoss,
    Restoration,
    capacity_clock,
    code_revision,
    effective_config,
    jsonl,
    largest_logprob_gap,
    loss_of,
    must_fit,
    must_pass,
    pinned_module,
    policy_datum,
    probe_arms,
    publish_feasibility,
    publish_manifests,
    publish_pilot,
    restore_equivalence,
    revision_of,
    sample_groups,
    scored_datum,
    service_client,
    stopped_runs_end,
    weighted,
)

PROMPT = "3, 8: 8\n41, 17: 41\n5, 62: 62\n{question}:"
"""Three solved problems show the form; the answer is the rest of the line."""
ANSWER_TOKENS = 4
STOP = "\n"
PILOT_STEPS = 2
CHECKED_ANSWERS = 24
"""How many answers of the pilot the correctness preflight takes, at most."""
RECOVERY_SECONDS = 120
GROUP, RUNNING = "group", "running"
REFERENCE = Path(__file__).with_name("paired_reference.py")
BASELINE_REVISION = f"importance_sampling of tinker {tinker.__version__}"


def answer(completion: str) -> str:
    """The rest of the line, without the spaces around it."""
    return completion.partition("\n")[0].strip()


# --- The plan and the problems ---


@dataclass(frozen=True)
class Plan:
    """What the spec says, for both arms alike."""

    base_model: str
    lora_rank: int
    optimizer: dict[str, float]
    """Every setting of AdamW but the learning rate, fixed when a client is created."""
    steps: int
    groups_per_batch: int
    group_size: int
    warm_up_batches: int
    """Of the running arm: sampled and graded before its first step, so that it has a baseline; nothing learns there."""
    seed: int

    @classmethod
    def of_spec(cls, spec: dict[str, Any]) -> "Plan":
        running = next(arm for arm in spec["arms"] if arm["name"] == RUNNING)
        group = spec["restoration_preflight"]["groups"][0]
        return cls(
            base_model=spec["base_model"],
            lora_rank=spec["lora_rank"],
            optimizer=group["arms"][0]["optimizer_config"],
            steps=spec["steps"],
            groups_per_batch=running["groups_per_batch"],
            group_size=running["group_size"],
            warm_up_batches=running["warm_up_batches"],
            seed=running["seed"],
        )


@dataclass(frozen=True)
class Problems:
    """Disjoint parts of all pairs of different numbers below 100, in a fixed random order."""

    selection: tuple[Item, ...]
    confirmation: tuple[Item, ...]
    training: tuple[Item, ...]

    @classmethod
    def of_spec(cls, spec: dict[str, Any]) -> "Problems":
        """The spec lists the ids that select and those that confirm; the rest is for training."""
        everything = {
            f"{a},{b}": Item(f"{a},{b}", f"{a}, {b}", str(max(a, b))) for a in range(100) for b in range(100) if a != b
        }
        lists = spec["decision_rule"]["selection"]
        selection, confirmation = (
            tuple(everything.pop(name) for name in lists[part]["ids"])
            for part in ("selection_items", "confirmation_items")
        )
        rest = list(everything.values())
        random.Random("larger").shuffle(rest)
        return cls(selection, confirmation, tuple(rest))


def evaluator(items: Sequence[Item]) -> Evaluator:
    return Evaluator(
        metric="accuracy",
        items=tuple(items),
        prompt_template=PROMPT,
        parser=answer,
        max_tokens=ANSWER_TOKENS,
        stop=(STOP,),
    )


# --- One step: answers, their worth, the losses of the two arms ---


@dataclass(frozen=True)
class Rollouts:
    """The graded answers to one batch."""

    rewards: NDArray[np.float64]
    """[problems, answers per problem], 1 where the answer is right."""
    data: list[Datum]
    """Every answer in the same order, each of its tokens worth 1."""
    tokens: int
    """Of all prompts and answers."""

    @property
    def group_worth(self) -> NDArray[np.float64]:
        """[answers] Reward less the mean of the answer's own group."""
        worth: NDArray[np.float64] = (self.rewards - self.rewards.mean(axis=1, keepdims=True)).ravel()
        return worth


def sample(sampler: tinker.SamplingClient, tokenizer: Any, batch: Sequence[Item], plan: Plan, seed: int) -> Rollouts:
    prompts = [tokenizer.encode(PROMPT.format(question=problem.question)) for problem in batch]
    groups = sample_groups(
        sampler, prompts, group_size=plan.group_size, max_tokens=ANSWER_TOKENS, stop=[STOP], seed=seed
    )
    return Rollouts(
        rewards=np.array(
            [
                [float(answer(tokenizer.decode(each.tokens)) == problem.reference) for each in group]
                for problem, group in zip(batch, groups, strict=True)
            ]
        ),
        data=[policy_datum(prompt, each, 1.0) for prompt, group in zip(prompts, groups, strict=True) for each in group],
        tokens=sum(
            len(prompt) + len(each.tokens) for prompt, group in zip(prompts, groups, strict=True) for each in group
        ),
    )


@dataclass(frozen=True)
class BaselineLoss:
    """−Σ (reward − baseline) · p/q over the answers' tokens: the custom loss of the running arm."""

    rewards: Sequence[float]
    baselines: Sequence[float]
    """One per answer: all the same in the running arm; each group's own mean with the treatment switched off."""

    def __call__(self, data: list[Datum], logprobs: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        terms = []
        for datum, learned, reward, baseline in zip(data, logprobs, self.rewards, self.baselines, strict=True):
            sampled, mask = (torch.tensor(datum.loss_fn_inputs[name].data) for name in ("logprobs", "advantages"))
            terms.append(((learned - sampled).exp() * mask).sum() * (reward - baseline))
        return -torch.stack(terms).sum(), {}

    def of(self, index: int) -> "BaselineLoss":
        """The part of one answer."""
        return BaselineLoss(self.rewards[index : index + 1], self.baselines[index : index + 1])


@dataclass(frozen=True)
class Update:
    """What one optimizer step saw."""

    loss: float
    """Mean over the answers that it learned from."""
    logprob_gap: float
    """See `largest_logprob_gap`."""


@dataclass
class Training:
    """One training: its client, what it consumed, and the baseline as it runs."""

    arm: str
    learning_rate: float
    learner: tinker.TrainingClient
    consumption: Consumption[Item]
    plan: Plan
    baseline: float = 0.0

    def steps(self) -> Iterator[tuple[Rollouts, Update]]:
        """All steps on the shared batches; yields each as it is done."""
        if self.arm == RUNNING:
            self._warm_up()
        for number, batch in enumerate(self.consumption.shared()):
            rollouts = self._sample(batch.items, number)
            yield rollouts, self._update(rollouts, self.learning_rate * (1 - number / self.plan.steps))
            self.baseline = float(rollouts.rewards.mean())

    def _warm_up(self) -> None:
        means = [
            self._sample(batch.items, self.plan.steps + number).rewards.mean()
            for number, batch in enumerate(self.consumption.warm_up())
        ]
        self.baseline = float(np.mean(means))

    def _sample(self, batch: Sequence[Item], number: int) -> Rollouts:
        sampler = self.learner.save_weights_and_get_sampling_client().result()
        seed = 1_000_000 * self.plan.seed + 1_000 * number
        return sample(sampler, self.learner.get_tokenizer(), batch, self.plan, seed)

    def _update(self, rollouts: Rollouts, learning_rate: float) -> Update:
        """One gradient of the arm's loss and one step of AdamW; neither without anything to learn from."""
        if self.arm == RUNNING:
            rewards = rollouts.rewards.ravel().tolist()
            data, loss = rollouts.data, BaselineLoss(rewards, [self.baseline] * len(rewards))
            gradient = self.learner.forward_backward_custom(data, loss)
        else:
            data = weighted(rollouts.data, rollouts.group_worth.tolist())
            if not data:
                return Update(0.0, 0.0)
            gradient = self.learner.forward_backward(data, "importance_sampling")
        step = self.learner.optim_step(adamw(self.plan, learning_rate))
        output = gradient.result()
        step.result()
        return Update(loss_of(output) / len(data), largest_logprob_gap(data, output))


def adamw(plan: Plan, learning_rate: float) -> AdamParams:
    return AdamParams(learning_rate=learning_rate, **plan.optimizer)


def new_learner(service: tinker.ServiceClient, plan: Plan) -> tinker.TrainingClient:
    """A client whose optimizer is fixed but for its learning rate; the service fails a step that says otherwise."""
    optimizer = OptimizerConfigBase.model_validate({"type": "adamw", **plan.optimizer})
    return service.create_lora_training_client(
        plan.base_model, rank=plan.lora_rank, seed=plan.seed, optimizer=optimizer
    ).result()


# --- The checks before anything trains ---


def probe(run: Run, plan: Plan, example: Sequence[int]) -> list[Probe]:
    """Whether each arm's client exists here and takes a step, in a session that is closed afterwards."""
    with service_client(name=f"{run.id} probe") as service:
        arm = ProbedArm(lambda: new_learner(service, plan), adamw(plan, 1e-4))
        return probe_arms(run, {GROUP: arm, RUNNING: arm}, example=example)


@dataclass(frozen=True)
class Pilot:
    """A few steps of the running arm with an adapter that is then thrown away."""

    values: dict[str, float | str]
    first: Rollouts
    """Answers of its first step, which its last weights are stale to."""
    checkpoint: str
    """Its last weights."""


def pilot(service: tinker.ServiceClient, batches: PairedBatches[Item], plan: Plan, learning_rate: float) -> Pilot:
    learner = new_learner(service, plan)
    training = Training(RUNNING, learning_rate, learner, batches.consumption(), plan)
    rollouts, gaps, moved = [], [], []
    for done, update in training.steps():
        rollouts.append(done)
        gaps.append(update.logprob_gap)
        moved.append(np.abs(done.rewards.ravel() - training.baseline - done.group_worth).mean())
    rewards = np.concatenate([done.rewards for done in rollouts])
    return Pilot(
        values={
            "executed_base_model": str(learner.get_info().model_data.model_name),
            "rollouts_per_problem": rewards.shape[1],
            "rollouts_per_step": rewards.size / len(rollouts),
            "batch_mean_reward": float(rewards.mean()),
            "groups_with_signal": float((rewards.std(axis=1) > 0).mean()),
            "mean_change_of_worth": float(np.mean(moved)),
            "largest_logprob_gap": max(gaps),
        },
        first=rollouts[0],
        checkpoint=learner.save_state("pilot").result().path,
    )


def check_loss(run: Run, plan: Plan, piloted: Pilot, pinned: str) -> GateReading:
    """Hold the custom loss against the stock one, against the reference, and against itself one answer at a time."""
    reference = pinned_module(REFERENCE, pinned)
    data, rewards = piloted.first.data[:CHECKED_ANSWERS], piloted.first.rewards.ravel()[:CHECKED_ANSWERS].tolist()
    group_worth = piloted.first.group_worth[:CHECKED_ANSWERS].tolist()
    baseline = float(piloted.first.rewards.mean())
    disabled = BaselineLoss(rewards, [reward - value for reward, value in zip(rewards, group_worth, strict=True)])
    enabled = BaselineLoss(rewards, [baseline] * len(rewards))

    def in_double(logprobs: Sequence[NDArray[np.float64]]) -> ReferenceLoss:
        sampled, mask = (
            [datum.loss_fn_inputs[name].to_numpy().tolist() for datum in data] for name in ("logprobs", "advantages")
        )
        found = reference.loss_and_derivative([p.tolist() for p in logprobs], sampled, mask, rewards, baseline)
        return ReferenceLoss(found.loss, [np.array(row) for row in found.derivative])

    check = CorrectnessPreflight(
        run,
        FixedState(service_client, piloted.checkpoint),
        data,
        description=f"{len(data)} answers of the pilot's first step, at the weights after its last",
        implementation=revision_of(Path(__file__)),
        precision="float32, compared in float64",
        normalization="summed over the tokens of all answers",
    )
    check.measure(
        LossPath(
            id="running_baseline",
            stock=lambda client, data: client.forward_backward(weighted(data, group_worth), "importance_sampling"),
            disabled=lambda client, data: client.forward_backward_custom(list(data), disabled),
            enabled=lambda client, data: client.forward_backward_custom(list(data), enabled),
            unpacked=lambda index: lambda client, data: client.forward_backward_custom(list(data), enabled.of(index)),
            reference=in_double,
            baseline_revision=BASELINE_REVISION,
            reference_revision=revision_of(REFERENCE),
        )
    )
    run.evidence(REFERENCE.name, "probe", REFERENCE)
    return check.publish()


def start_arms(
    run: Run, service: tinker.ServiceClient, plan: Plan, origin: tinker.TrainingClient, points: Sequence[Point]
) -> list[tinker.TrainingClient]:
    """One client for each training, all from the adapter of `origin`, and proof of it on record."""
    batch = [scored_datum(origin.get_tokenizer().encode(PROMPT.format(question="12, 7") + " 12\n"))]
    start = Restoration.begin(run, service, origin, batch)
    learners = [start.arm(point.arm, lambda: new_learner(service, plan)) for point in points]
    start.equivalence = restore_equivalence(
        service,
        origin,
        lambda client: loss_of(client.forward_backward(batch, "cross_entropy").result()),
        adamw(plan, 1e-4),
    )
    must_pass(start.publish())
    return learners


# --- The whole experiment ---


def retain_setup(run: Run, plan: Plan, learner: tinker.TrainingClient, evaluators: dict[str, Evaluator]) -> None:
    """What was run, from which code, with which settings: a reviewer starts here."""
    run.evidence("paired.py", "script", Path(__file__))
    run.evidence("code-revision.json", "code_revision", code_revision(Path(__file__)))
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
        learner = new_learner(service, plan)
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
