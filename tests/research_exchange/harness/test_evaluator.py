"""The frozen evaluator: what belongs to its identity, and answers that survive an interruption."""

import json
from pathlib import Path
from typing import Any

import pytest
import tinker

from research_exchange.documents.evaluation import parse_evaluation
from research_exchange.documents.items import read_manifest
from research_exchange.evidence import MAX_FILE_BYTES
from research_exchange.harness import ArmScore, Evaluator, Item
from research_exchange.harness.rows import chunks, jsonl
from research_exchange.harness.scores import Answer
from research_exchange.predictions import read_predictions
from tests.research_exchange.harness import comparing
from tests.research_exchange.harness.comparing import evaluator, score


def is_short(completion: str, item: Item) -> float:
    return float(len(completion) < 2)


def is_empty(completion: str, item: Item) -> float:
    return float(not completion)


def upper(completion: str) -> str:
    return completion.upper()


@pytest.mark.parametrize(
    "changes",
    [
        {"items": (Item("0", "0", "7"), Item("1", "1", "8"))},
        {"items": (Item("0", "0", "7"), Item("1", "one", "7"))},
        {"further": {"short": is_short}},
        {"further": {"brief": is_empty}},
        {"code": (upper,)},
        {"code": (comparing,)},
        {"manifest": "items.jsonl"},
    ],
)
def test_r136_questions_references_grades_and_called_code_are_part_of_the_identity(changes: dict[str, Any]) -> None:
    plain = evaluator(items=(Item("0", "0", "7"), Item("1", "1", "7")), further={"brief": is_short})
    assert evaluator(**{"items": plain.items, "further": plain.further, **changes}).id != plain.id


@pytest.mark.parametrize("manifest", [None, "items.jsonl"])
def test_r131_the_provenance_is_complete_and_names_its_items(manifest: str | None) -> None:
    frozen = evaluator(manifest=manifest)
    parsed = parse_evaluation({"version": 1, "evaluators": {frozen.id: frozen.provenance}, "scores": []})
    assert parsed.evaluators[frozen.id].problems == ()
    assert read_manifest(frozen.manifest_file()) == tuple(item.id for item in frozen.items)


def test_braces_in_a_prompt_stand_for_themselves() -> None:
    assert evaluator(prompt_template=r"{question} Put it in \boxed{}.").prompt("1+1?") == r"1+1? Put it in \boxed{}."


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt_template": "no place"}, "has one {question}; found 0"),
        ({"items": ()}, "at least one item"),
        ({"items": (Item("0", "a", "1"), Item("0", "b", "2"))}, "no id twice"),
        ({"further": {"accuracy": is_short}}, "another name"),
    ],
)
def test_what_is_no_evaluator_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        evaluator(**changes)


def test_a_parser_without_source_cannot_be_frozen() -> None:
    with pytest.raises(ValueError, match="has no source"):
        _ = evaluator(parser=str.strip).id


class Interrupted(Exception):
    pass


class CountingSampler:
    """A real sampling client that counts what it is asked, and that fails after so many answers."""

    def __init__(self, sampler: tinker.SamplingClient, answers: int) -> None:
        self._sampler = sampler
        self._answers = answers
        self.asked = 0

    def sample(self, *arguments: Any, **options: Any) -> Any:
        self.asked += 1
        future = self._sampler.sample(*arguments, **options)
        if self.asked <= self._answers:
            return future
        return self

    def result(self) -> Any:
        raise Interrupted


def ask(frozen: Evaluator, sampler: Any, tokenizer: Any, folder: Path, **changes: Any) -> ArmScore:
    options = {"arm": "trained", "seed": 0, "checkpoint": "tinker://x/weights/1", "folder": folder, **changes}
    return frozen.score(sampler, tokenizer, **options)


def test_an_interrupted_evaluation_asks_only_what_is_missing(
    learner: tinker.TrainingClient, tokenizer: Any, tmp_path: Path
) -> None:
    frozen, real = evaluator(further={"short": is_short}), learner.save_weights_and_get_sampling_client().result()
    whole = frozen.score(real, tokenizer, arm="trained", seed=0, checkpoint="tinker://x/weights/1")

    with pytest.raises(Interrupted):
        ask(frozen, CountingSampler(real, 7), tokenizer, tmp_path)
    [kept] = tmp_path.glob("answers-*.jsonl")
    assert len(kept.read_bytes().splitlines()) == 7
    kept.write_bytes(kept.read_bytes()[:-5])  # as a crash in the middle of a line leaves it

    again = CountingSampler(real, 40)
    assert ask(frozen, again, tokenizer, tmp_path) == whole
    assert again.asked == 34
    rest = CountingSampler(real, 40)
    assert ask(frozen, rest, tokenizer, tmp_path) == whole
    assert rest.asked == 0


@pytest.mark.parametrize(
    ("of", "asked"),
    [
        ({}, {"checkpoint": "tinker://x/weights/2"}),
        ({}, {"arm": "untrained"}),
        ({}, {"seed": 1}),
        ({"prompt_template": "{question} ="}, {}),
    ],
)
def test_answers_of_other_weights_or_another_evaluator_are_not_taken_over(
    learner: tinker.TrainingClient, tokenizer: Any, tmp_path: Path, of: dict[str, Any], asked: dict[str, Any]
) -> None:
    items = tuple(Item(f"{number}", f"{number}", "7") for number in range(3))
    real = learner.save_weights_and_get_sampling_client().result()
    ask(evaluator(items=items), real, tokenizer, tmp_path)
    sampler = CountingSampler(real, 3)
    ask(evaluator(items=items, **of), sampler, tokenizer, tmp_path, **asked)
    assert sampler.asked == 3


def test_rows_of_further_metrics_are_graded_and_leave_the_prediction_null() -> None:
    answers = tuple(Answer(f"{n}", "7 or so", "7", "7", 1, {"short": n / 2}) for n in range(2))
    scored = ArmScore("base", None, "accuracy", "e" * 64, answers)
    assert scored.means == {"accuracy": 1.0, "short": 0.25}
    assert [(row["metric"], row["value"]) for row in scored.score_rows()] == [("accuracy", 1.0), ("short", 0.25)]
    rows = list(scored.prediction_rows())
    assert [(row["metric"], row["prediction"], row["value"]) for row in rows[:2]] == [
        ("accuracy", "7", 1),
        ("short", None, 0),
    ]
    assert read_predictions(jsonl(rows)).bad_line is None
    assert [row["value"] for row in scored.observation_rows({"short"})] == [0, 0.5]
    assert len(list(scored.observation_rows())) == 4


def test_r163_predictions_that_are_too_large_leave_their_completions_to_further_files() -> None:
    frozen = evaluator()
    answers = tuple(Answer(item.id, "word " * 100, "7", "7", 1) for item in frozen.items)
    scored = ArmScore("trained", 0, "accuracy", frozen.id, answers, "tinker://x/weights/1")
    [whole] = scored.files()
    assert (whole.kind, len(whole.content) < MAX_FILE_BYTES) == ("predictions", True)

    predictions, *logs = scored.files(limit=12_000)
    assert predictions.name == whole.name
    assert all(len(file.content) <= 12_000 for file in (predictions, *logs))
    assert len({file.name for file in logs}) == len(logs) > 1
    assert len(read_predictions(predictions.content).rows) == 40
    words = [json.loads(line) for file in logs for line in file.content.splitlines()]
    assert words == [{"item_id": item.id, "completion": "word " * 100} for item in frozen.items]
    with pytest.raises(ValueError, match="evaluate fewer items"):
        scored.files(limit=5_000)


def test_names_of_arms_become_plain_file_names() -> None:
    name = score("lr=1e-4/../x", 1, of=evaluator()).predictions_name
    assert "/" not in name
    assert name != score("lr=1e-4/.../x", 1, of=evaluator()).predictions_name


def test_chunks_keep_every_row_in_order_and_whole() -> None:
    rows = [{"n": number, "text": "é" * number} for number in range(30)]
    pieces = list(chunks(rows, 100))
    assert b"".join(pieces) == jsonl(rows)
    assert all(len(piece) <= 100 and piece.endswith(b"\n") for piece in pieces)
    assert list(chunks([])) == []
    with pytest.raises(ValueError, match="One row takes"):
        list(chunks([{"text": "é" * 60}], 100))
