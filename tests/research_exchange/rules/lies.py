"""The catalogue of lies: honest runs, what is changed in them, and the judgment of what is left.

`tests/vectors/lies.json` says it all in JSON. A change is a list of operations: those of JSON Patch, in whose paths a
file of the evidence goes by its name, and more for what a patch cannot say (`OPERATIONS`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from tests.research_exchange.rules.honest_run import BASELINE, ITEMS, TREATMENT, honest_run
from tests.research_exchange.rules.support import patched, vectors

__all__ = ["BASES", "CATALOGUE", "LIES", "OPERATIONS", "base_run", "told"]

Document = dict[str, Any]
Operation = Mapping[str, Any]

CATALOGUE: Mapping[str, Any] = vectors("lies")
BASES: Mapping[str, Sequence[Operation]] = {name: base["change"] for name, base in CATALOGUE["bases"].items()}
LIES: Sequence[Mapping[str, Any]] = CATALOGUE["lies"]


@cache
def _base(name: str, *, short: bool) -> str:
    return json.dumps(_changed(_shortened(honest_run()) if short else honest_run(), BASES[name]))


def base_run(name: str, *, short: bool = True) -> Document:
    """An honest run, fresh: that of the corrected GS1 spec, or one whose spec asks for another gate besides.

    Args:
        short: Every twentieth item alone, with a margin that two net wins just settle.
    """
    document: Document = json.loads(_base(name, short=short))
    return document


def told(lie: Mapping[str, Any], *, short: bool = True) -> Document:
    """The run of a lie's base as its lie tells it."""
    return _changed(base_run(lie["base"], short=short), lie["change"])


def _shortened(document: Document) -> Document:
    kept = ITEMS[::20]
    document["spec"]["eval"]["n_examples"] = len(kept)
    document["updates"][0]["feasibility"]["effective_config"]["eval"]["n_examples"] = len(kept)
    document["spec"]["decision_rule"]["criteria"][0]["margin"] = -0.31
    for update in document["updates"]:
        for evaluator in update.get("evaluation", {}).get("evaluators", {}).values():
            evaluator["items"]["ids"] = list(kept)
    for name in ("rows.jsonl", f"{BASELINE}.jsonl", f"{TREATMENT}.jsonl"):
        file = _file(document, name)
        lines = file["content"].splitlines(keepends=True)
        file["content"] = "".join(line for line in lines if json.loads(line)["item_id"] in kept)
    _rescore(document, {})
    _reidentify(document, {})
    _hash(document, {"file": "rows.jsonl", "paths": ["/updates/3/decision/observations_file/sha256"]})
    for score, update in zip(document["updates"][3]["evaluation"]["scores"], (2, 3), strict=True):
        document["updates"][update]["metrics"]["arms"] = {score["arm"]: {"accuracy": score["value"]}}
    return document


def _items(document: Document) -> list[str]:
    """The items of the honest evaluator."""
    evaluators = document["updates"][0]["evaluation"]["evaluators"]
    items: list[str] = next(iter(evaluators.values()))["items"]["ids"]
    return items


def _changed(document: Document, change: Sequence[Operation]) -> Document:
    for operation in change:
        named = json.loads(json.dumps(operation).replace("{evaluator}", _evaluator(document)))
        if named["op"] in OPERATIONS:
            OPERATIONS[named["op"]](document, named)
        else:
            places = {key: _by_number(document, named[key]) for key in ("path", "from") if key in named}
            document = patched(document, [{**named, **places}])
    return document


def _evaluator(document: Document) -> str:
    """The first evaluator that the run reports: the honest one."""
    evaluations = (update.get("evaluation") for update in document["updates"])
    return next((key for each in evaluations if isinstance(each, dict) for key in each.get("evaluators", {})), "")


def _file(document: Document, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(file for file in document["evidence"] if file["name"] == name)
    return found


def _at(document: Document, path: str) -> Any:
    target: Any = document
    for step in path.split("/")[1:]:
        target = target[int(step) if isinstance(target, list) else step]
    return target


def _put(document: Document, path: str, value: Any) -> None:
    parent, _, key = path.rpartition("/")
    _at(document, parent)[key] = value


def _by_number(document: Document, path: str) -> str:
    """A path by number, which is what a patch wants, where it goes by the name of a file or of an item in a list."""
    steps = path.split("/")
    names = [file["name"] for file in document["evidence"]]
    if steps[1] == "evidence" and len(steps) > 2 and steps[2] in names:
        steps[2] = str(names.index(steps[2]))
    if steps[-1] in ITEMS and isinstance(items := _at(document, "/".join(steps[:-1])), list):
        steps[-1] = str(items.index(steps[-1]))
    return "/".join(steps)


def _rows(document: Document, operation: Operation) -> None:
    """Changes the rows `where` these fields stand, in a file: `set`, `unset`, `drop`, or `repeat` with changes."""
    file = _file(document, operation["file"])
    rows = [json.loads(line) for line in file["content"].splitlines()]
    where = operation["where"].items()
    found = [index for index, row in enumerate(rows) if all(row.get(key) == value for key, value in where)]
    assert found, f"no row of {file['name']} is {operation['where']}"
    for index in found:
        if "repeat" in operation:
            rows.append({**rows[index], **operation["repeat"]})
        else:
            kept = {key: value for key, value in rows[index].items() if key != operation.get("unset")}
            rows[index] = None if operation.get("drop") else {**kept, **operation.get("set", {})}
    file["content"] = "".join(f"{json.dumps(row)}\n" for row in rows if row is not None)


def _second_file(document: Document, operation: Operation) -> None:
    """Adds a file that is the same but in name."""
    document["evidence"].append({**_file(document, operation["file"]), "name": operation["as"]})


def _text(document: Document, operation: Operation) -> None:
    """Puts `new` in place of the first `old` in a file; at its end where `old` is empty."""
    file = _file(document, operation["file"])
    old, new = operation["old"], operation["new"]
    assert old in file["content"], f"{old} does not stand in {file['name']}"
    file["content"] = file["content"].replace(old, new, 1) if old else file["content"] + new


def _hash(document: Document, operation: Operation) -> None:
    """Puts the sha256 of a file at each of the `paths`."""
    digest = sha256(_file(document, operation["file"])["content"].encode()).hexdigest()
    for path in operation["paths"]:
        _put(document, _by_number(document, path), digest)


def _pad(document: Document, operation: Operation) -> None:
    """Adds `text` to the end of a file so many `times`."""
    _file(document, operation["file"])["content"] += operation["text"] * operation["times"]


def _copies(document: Document, operation: Operation) -> None:
    """Adds so many copies of the first entry at `path`; in an object under other names, in a list as told by `vary`."""
    target, name = _at(document, operation["path"]), operation.get("vary")
    if isinstance(target, list):
        copies = [target[0]] * operation["times"]
        target += [{**copy, name: f"copy {number}"} for number, copy in enumerate(copies)] if name else copies
    else:
        first = next(iter(target.values()))
        target.update({f"copy {number}": first for number in range(operation["times"])})


def _probes(document: Document, operation: Operation) -> None:
    """Puts at `path` so many probes of one optimizer, each at another learning rate."""
    rates = [number * 1e-6 for number in range(1, operation["times"] + 1)]
    _put(document, operation["path"], [{"learning_rate": rate, "update_norm": 20 * rate} for rate in rates])


def _evaluators(document: Document, operation: Operation) -> None:
    """Describes further evaluators in the final update, each rightly identified."""
    evaluators = document["updates"][-1]["evaluation"]["evaluators"]
    honest = next(iter(evaluators.values()))
    for number in range(operation["times"]):
        provenance = {**honest, "parser": f"parser_{number}", "items": {"ids": list(ITEMS[:1])}}
        evaluators[sha256(json.dumps(provenance, sort_keys=True, separators=(",", ":")).encode()).hexdigest()] = (
            provenance
        )


def _rescore(document: Document, operation: Operation) -> None:
    """Makes every reported score the mean of the rows of its arm and seed, as an honest runner would."""
    cells: dict[tuple[str, int], list[float]] = {}
    for line in _file(document, "rows.jsonl")["content"].splitlines():
        row = json.loads(line)
        cells.setdefault((row["arm"], row["seed"]), []).append(row["value"])
    for update in document["updates"]:
        for score in update.get("evaluation", {}).get("scores", ()):
            values = cells[score["arm"], score["seed"]]
            score["value"] = sum(values) / len(values)


def _reidentify(document: Document, operation: Operation) -> None:
    """Gives each evaluator the id that its provenance now has, wherever the run names it, in files as well."""
    text = json.dumps(document)
    for key, provenance in document["updates"][-1]["evaluation"]["evaluators"].items():
        canonical = json.dumps(provenance, sort_keys=True, separators=(",", ":"))
        text = text.replace(key, sha256(canonical.encode()).hexdigest())
    document.clear()
    document.update(json.loads(text))


def _inline(document: Document, operation: Operation) -> None:
    """Takes the observations out of their file and into the final update."""
    file = _file(document, "rows.jsonl")
    document["evidence"].remove(file)
    rows = [json.loads(line) for line in file["content"].splitlines()]
    document["updates"][-1]["decision"] = {"version": 1, "observations": rows}


def _item_list(document: Document, operation: Operation) -> None:
    """Adds a file with all items to the evidence: their `ids` alone, or `rows` with a prompt for each."""
    if operation["as"] == "ids":
        content = json.dumps(_items(document))
    else:
        content = "".join(f"{json.dumps({'item_id': item, 'prompt': f'Solve {item}.'})}\n" for item in _items(document))
    file = {"name": operation["file"], "kind": operation["kind"], "content": content, "update": operation["update"]}
    document["evidence"].append(file)


def _clusters(document: Document, operation: Operation) -> None:
    """Puts at `path` a cluster for each of all items, each item in one of its own."""
    _put(document, operation["path"], {item: f"topic of {item}" for item in _items(document)})


def _population(document: Document, operation: Operation) -> None:
    """Puts at `path` a population of all items, all of which are drawn."""
    _put(document, operation["path"], {"items": _items(document), "size": len(_items(document)), "sample_seed": 0})


def _shorten(document: Document, operation: Operation) -> None:
    """Leaves every twentieth item, and nothing else; a short run stays what it is."""
    _shortened(document)


def _restores(document: Document, operation: Operation) -> None:
    """Restores the arm at `path` so many `times`, with a check of its optimizer after each; the last one unnumbered."""
    arm, times = _at(document, operation["path"]), operation["times"]
    check = arm["optimizer_checks"][0]
    arm["restore_count"] = times - 1
    arm["optimizer_checks"] = [{**check, "after_restore": number} for number in range(times)]
    arm["optimizer_checks"].append({**check, "after_restore": None})


OPERATIONS: Mapping[str, Callable[[Document, Operation], None]] = {
    "rows": _rows,
    "second_file": _second_file,
    "text": _text,
    "pad": _pad,
    "clusters": _clusters,
    "population": _population,
    "copies": _copies,
    "restores": _restores,
    "shorten": _shorten,
    "evaluators": _evaluators,
    "probes": _probes,
    "hash": _hash,
    "rescore": _rescore,
    "reidentify": _reidentify,
    "inline": _inline,
    "item_list": _item_list,
}
"""What a change may do besides the operations of JSON Patch."""
