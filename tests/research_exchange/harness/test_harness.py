"""What experiments measure with, against a real training service and a real Exchange."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker
from tinker.types import Datum, ModelInput, SamplingParams, TensorData

from research_exchange.client import Run
from research_exchange.documents.evaluation import evaluator_id
from research_exchange.harness import (
    Comparison,
    Item,
    Progress,
    code_revision,
    effective_config,
    jsonl,
    largest_logprob_gap,
)
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.comparing import evaluator, first_letter, new_run, score


@pytest.fixture
def run(served: ServedExchange) -> Run:
    return new_run(served)


def test_r132_the_id_is_that_of_the_provenance() -> None:
    frozen = evaluator()
    assert frozen.id == evaluator_id(frozen.provenance)
    assert frozen.provenance["items"] == {"ids": [str(number) for number in range(40)]}


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt_template": "{question} ="},
        {"parser": first_letter},
        {"max_tokens": 4},
        {"stop": ()},
        {"items": (Item("0", "0", "7"),)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_r136_whatever_could_change_a_score_is_another_evaluator(changes: dict[str, Any]) -> None:
    assert evaluator(**changes).id != evaluator().id


def test_r131_the_id_follows_the_source_of_the_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = []
    for number, body in enumerate(("return text", "return text.strip()")):
        (tmp_path / f"parsers{number}.py").write_text(f"def parse(text: str) -> str:\n    {body}\n")
        monkeypatch.syspath_prepend(tmp_path)
        ids.append(evaluator(parser=__import__(f"parsers{number}").parse).id)
    assert ids[0] != ids[1]


def test_scoring_asks_every_item_once_and_greedily(learner: tinker.TrainingClient, tokenizer: Any) -> None:
    frozen = evaluator()
    sampler = learner.save_weights_and_get_sampling_client().result()
    scored = frozen.score(sampler, tokenizer, arm="untrained", seed=0, checkpoint="tinker://x/sampler_weights/y")
    assert [answer.item_id for answer in scored.answers] == [item.id for item in frozen.items]
    for answer, item in zip(scored.answers[:5], frozen.items[:5], strict=True):
        greedy = sampler.sample(
            ModelInput.from_ints(tokenizer.encode(f"{item.question}=")),
            num_samples=1,
            sampling_params=SamplingParams(temperature=0.0, max_tokens=3, stop=["\n"]),
        ).result()
        assert answer.completion == tokenizer.decode(greedy.sequences[0].tokens)
    assert scored == frozen.score(
        sampler, tokenizer, arm="untrained", seed=0, checkpoint="tinker://x/sampler_weights/y"
    ), "the same weights answer the same"


def test_scoring_grades_by_the_parser_against_the_reference(learner: tinker.TrainingClient, tokenizer: Any) -> None:
    sampler = learner.save_weights_and_get_sampling_client().result()
    seen = evaluator().score(sampler, tokenizer, arm="untrained", seed=0).answers
    knowing = evaluator(items=tuple(Item(answer.item_id, answer.item_id, answer.completion) for answer in seen))
    assert knowing.score(sampler, tokenizer, arm="untrained", seed=0).mean == 1.0
    blind = evaluator(items=tuple(Item(answer.item_id, answer.item_id, "never") for answer in seen))
    assert blind.score(sampler, tokenizer, arm="untrained", seed=0).mean == 0.0


def test_r134_rows_name_arm_item_evaluator_and_reference() -> None:
    frozen = evaluator()
    scored = score("trained", 10, of=frozen)
    [first, *others] = scored.prediction_rows()
    assert len(others) == 39
    assert (
        first.items()
        >= {
            "arm": "trained",
            "seed": 0,
            "item_id": "0",
            "evaluator_id": frozen.id,
            "metric": "accuracy",
            "prediction": "7",
            "reference": "7",
        }.items()
    )
    assert scored.mean == 0.25
    assert sum(row["value"] for row in scored.observation_rows()) == 10


def test_r16b_rows_are_utf8_json_lines_and_never_nan() -> None:
    assert jsonl([{"a": "é"}, {"b": 1}]) == '{"a":"é"}\n{"b":1}\n'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsonl([{"a": math.nan}])


@pytest.mark.parametrize(
    ("right", "verdict", "reason"),
    [(40, "supported", "supported"), (0, "refuted", "refuted"), (20, "inconclusive", "insufficient_evidence")],
)
def test_r149_the_script_and_the_exchange_decide_alike(run: Run, right: int, verdict: str, reason: str) -> None:
    """From the rows of a whole comparison, each side by itself."""
    frozen = evaluator()
    comparison = Comparison(run, frozen, arms=("trained", "untrained"))
    comparison.freeze()
    comparison.add(score("untrained", 0 if right else 20, of=frozen))
    comparison.add(score("trained", right, of=frozen), step=14)
    decision = comparison.conclude()
    assert (decision.verdict, decision.outcome_reason) == (verdict, reason)

    run.finish(verdict=decision.verdict, outcome_reason=decision.outcome_reason)
    recomputed = run.judgment()["decision"]
    assert (recomputed["verdict"], recomputed["outcome_reason"]) == (verdict, reason)
    assert recomputed["criteria"][0]["effect"] == decision.criteria[0].effect
    assert recomputed["criteria"][0]["lower"] == decision.criteria[0].lower
    assert comparison.mean("trained") == right / 40


def test_r138_the_evaluator_is_on_record_before_any_score(run: Run) -> None:
    frozen = evaluator()
    comparison = Comparison(run, frozen, arms=("trained", "untrained"))
    comparison.freeze()
    for arm in ("untrained", "trained"):
        comparison.add(score(arm, 3, of=frozen))
    comparison.conclude()
    run.finish(outcome_reason="insufficient_evidence")
    judgment = run.judgment()
    assert "R-138" not in {flag["rule"] for flag in judgment["flags"]}
    kinds = {expectation["kind"]: expectation["state"] for expectation in judgment["evidence"]}
    assert kinds["predictions"] == "retained"


def test_the_logprob_gap_is_the_largest_over_tokens_with_an_advantage(
    learner: tinker.TrainingClient, tokenizer: Any
) -> None:
    tokens = tokenizer.encode("1+1=2")
    sampled = np.array([0.0, 0.0, 0.0, -1.0], dtype=np.float32)
    datum = Datum(
        model_input=ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64)),
            "logprobs": TensorData.from_numpy(sampled),
            "advantages": TensorData.from_numpy(np.array([0, 0, 0, 1], dtype=np.float32)),
        },
    )
    output = learner.forward_backward([datum], loss_fn="importance_sampling").result()
    learned = output.loss_fn_outputs[0]["logprobs"].to_numpy()
    assert abs(learned[0]) > abs(learned[3] + 1.0), "a larger gap where there is no advantage would show"
    assert largest_logprob_gap([datum], output) == pytest.approx(abs(learned[3] + 1.0), abs=1e-6)


def test_progress_counts_steps_and_guesses_what_is_left(run: Run) -> None:
    now = iter((0.0, 2.0, 4.0))
    progress = Progress(run, steps=5, seconds_after=10, clock=lambda: next(now))
    progress.step(tokens=100, reward=0.5)
    progress.step(tokens=50, reward=0.75)
    metrics = run.record()["state"]["metrics"]
    latest = {name: history["value"] for name, history in metrics.items()}
    assert latest == {"step": 2, "steps": 5, "reward": 0.75, "tokens_per_second": 25.0, "seconds_left": 16.0}
    assert [row["step"] for row in progress.rows] == [1, 2]


def test_progress_goes_on_where_an_earlier_session_stopped(run: Run) -> None:
    now = iter((0.0, 2.0))
    Progress(run, steps=5, done=3, clock=lambda: next(now)).step(tokens=10)
    metrics = run.record()["state"]["metrics"]
    assert (metrics["step"]["value"], metrics["seconds_left"]["value"]) == (4, 2.0)


def test_the_revision_names_commit_script_and_packages(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("1\n")
    document = json.loads(code_revision(script, {"RX_CODE_REVISION": "abc-dirty"}))
    assert document["revision"] == "abc-dirty"
    assert document["script"] == {"name": "train.py", "sha256": hashlib.sha256(b"1\n").hexdigest()}
    assert document["packages"]["tinker"] == tinker.__version__


def test_the_effective_config_takes_what_the_service_reports(learner: tinker.TrainingClient) -> None:
    document = json.loads(effective_config(steps=14, service=learner.get_info()))
    assert document["steps"] == 14
    assert document["service"]["lora_rank"] == 4
