"""Builds the rows and the evaluation of a run out of columns of values."""

from typing import Any

from research_exchange.documents.evaluation import evaluator_id

__all__ = ["provenance", "report", "table"]


def provenance(items: list[str]) -> dict[str, Any]:
    return {
        "code_sha256": "a" * 64,
        "prompt_template": "{question}",
        "decoding": {"temperature": 0, "max_tokens": 16, "stop": []},
        "parser": "last_number_v1",
        "items": {"ids": items},
    }


def report(
    values: dict[str, dict[str, dict[int, list[float]]]], items: list[str] | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and evaluation from metric → arm → seed → one value per item, by default `item-0000` and so on."""
    count = len(next(iter(next(iter(next(iter(values.values())).values())).values())))
    items = items or [f"item-{index:04d}" for index in range(count)]
    evaluator = evaluator_id(provenance(items))
    cells = [(m, a, s, v) for m, arms in values.items() for a, seeds in arms.items() for s, v in seeds.items()]
    rows = [
        {"item_id": item, "arm": arm, "seed": seed, "metric": metric, "value": value, "evaluator_id": evaluator}
        for metric, arm, seed, cell in cells
        for item, value in zip(items, cell, strict=True)
    ]
    scores = [
        {"arm": arm, "metric": metric, "value": sum(cell) / count, "evaluator_id": evaluator, "seed": seed}
        for metric, arm, seed, cell in cells
    ]
    return rows, {"version": 1, "evaluators": {evaluator: provenance(items)}, "scores": scores}


def table(n11: int, n10: int, n01: int, n00: int) -> dict[str, dict[int, list[float]]]:
    pairs = [(1, 1)] * n11 + [(1, 0)] * n10 + [(0, 1)] * n01 + [(0, 0)] * n00
    return {"t": {0: [t for t, _ in pairs]}, "b": {0: [b for _, b in pairs]}}
