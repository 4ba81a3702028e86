"""The tasks of the experiments: what is asked, what is held out, and that rewards and scores agree."""

import json
from pathlib import Path

import pytest

from research_exchange.harness import Item, task_named
from research_exchange.harness.errors import HarnessError

REAL = Path(__file__).parents[4] / "shared" / "data" / "gsm8k"


def test_sums_are_split_without_overlap_and_always_alike() -> None:
    task = task_named("arithmetic", evaluation=200)
    assert len(task.evaluation) == 200
    assert len(task.training) == 800
    assert {item.id for item in task.evaluation}.isdisjoint(item.id for item in task.training)
    assert task == task_named("arithmetic", evaluation=200)
    assert task_named("arithmetic", evaluation=50).evaluation == task.evaluation[:50]
    assert task_named("arithmetic", evaluation=200, max_tokens=9).max_tokens == 9


def test_a_reward_is_what_the_evaluator_would_give() -> None:
    task = task_named("arithmetic", evaluation=1)
    problem = Item("12+7", "12+7", "19")
    assert task.prompt(problem).endswith("\n12+7=")
    assert [task.reward(text, problem) for text in ("19\n1+1=2", "19", " 19", "1", "")] == [1, 1, 0, 0, 0]
    evaluator = task.evaluator()
    assert evaluator.items == task.evaluation
    assert evaluator.prompt(problem.question) == task.prompt(problem)
    assert (evaluator.max_tokens, evaluator.stop, evaluator.parser) == (task.max_tokens, task.stop, task.parser)


def test_word_problems_from_a_folder(tmp_path: Path) -> None:
    for split, number in (("train", 3), ("test", 2)):
        rows = [{"question": f"What is {n} + {{1}}?", "answer": f"So\n#### {n + 1}"} for n in range(number)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = task_named("gsm8k", evaluation=1, gsm8k_folder=tmp_path)
    assert [item.id for item in task.evaluation] == ["gsm8k-test-0"]
    assert sorted(item.id for item in task.training) == [f"gsm8k-train-{n}" for n in range(3)]
    [problem] = task.evaluation
    assert "Problem: What is 0 + {1}?" in task.prompt(problem)
    assert [task.reward(text, problem) for text in (" 0 + 1\n#### 1", "#### 2", "")] == [1, 0, 0]
    assert [source["split"] for source in task.record()["sources"]] == ["train", "test"]
    json.dumps(task.record())


def test_the_first_500_test_problems_of_the_real_data() -> None:
    if not REAL.is_dir():
        pytest.skip("GSM8K does not lie beside the repository, in ../shared/data/gsm8k")
    task = task_named("gsm8k", evaluation=500, gsm8k_folder=REAL)
    assert [item.id for item in task.evaluation] == [f"gsm8k-test-{n}" for n in range(500)]
    assert len(task.training) == 7473


@pytest.mark.parametrize(
    ("name", "evaluation", "sentence"),
    [
        ("algebra", 10, "There is no task 'algebra'; name one of arithmetic, gsm8k."),
        ("arithmetic", 1000, "arithmetic can hold out 1 to 999 problems; asked for 1000."),
        ("arithmetic", 0, "arithmetic can hold out 1 to 999 problems; asked for 0."),
    ],
)
def test_what_is_no_task_is_said_in_a_sentence(name: str, evaluation: int, sentence: str) -> None:
    with pytest.raises(HarnessError) as refused:
        task_named(name, evaluation=evaluation)
    assert str(refused.value) == sentence
