"""Judges a correctness preflight: `python -m research_exchange.correctness SPEC.json PREFLIGHT.json`.

SPEC.json is a spec, or its `correctness_preflight` alone. PREFLIGHT.json is an update, or its
`correctness_preflight` alone. One JSON object is printed: `status`, `problems` and `paths`.

Exit codes: 0 passed or not applicable, so that the full run may start; 1 failed; 2 wrong arguments, or a file that
cannot be read; 3 unverified.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from research_exchange.correctness.check import check_correctness
from research_exchange.correctness.gate import correctness_applicability
from research_exchange.documents.correctness_plan import parse_plan
from research_exchange.documents.correctness_report import parse_report
from research_exchange.documents.fields import show
from research_exchange.documents.gates import Applicability, GateStatus, Problem
from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.documents.plain import plain

USAGE = 2
EXIT_CODES: Mapping[GateStatus, int] = {
    GateStatus.PASSED: 0,
    GateStatus.NOT_APPLICABLE: 0,
    GateStatus.FAILED: 1,
    GateStatus.UNVERIFIED: 3,
    GateStatus.UNKNOWN: 3,
}

_SECTION = "correctness_preflight"


def main(arguments: Sequence[str]) -> int:
    """Prints the answer and returns the exit code."""
    if list(arguments) in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if len(arguments) != 2:
        action = "Call it with SPEC.json and PREFLIGHT.json."
        return _refuse(Problem("R-10E", "arguments", "two files", f"{len(arguments)}", action))
    try:
        spec, preflight = (_read(path) for path in arguments)
    except _UnusableFile as unusable:
        return _refuse(unusable.problem)
    return _judge(_whole(spec), _whole(preflight).get(_SECTION))


def _judge(spec: Mapping[str, JsonValue], report: JsonValue) -> int:
    answer = correctness_applicability(spec, [report])
    if answer["status"] is Applicability.NOT_APPLICABLE:
        return _print(GateStatus.NOT_APPLICABLE)
    if answer["status"] is Applicability.UNKNOWN:
        action = "Declare custom_loss and custom_optimizer, each true or false."
        problem = Problem("R-086", "experiment_features", "whether the check applies", answer["reason"], action)
        return _print(GateStatus.UNKNOWN, [problem])
    found = check_correctness(parse_plan(spec.get(_SECTION)), None if report is None else parse_report(report))
    return _print(found.status, found.problems, plain(found.paths))


def _print(status: GateStatus, problems: Sequence[Problem] = (), paths: JsonValue = ()) -> int:
    print(json.dumps({"status": status.value, "problems": plain(problems), "paths": paths}, indent=2))
    return EXIT_CODES[status]


def _refuse(problem: Problem) -> int:
    _print(GateStatus.UNVERIFIED, [problem])
    return USAGE


class _UnusableFile(Exception):
    def __init__(self, path: str, found: str) -> None:
        action = "Give the path of a JSON file."
        self.problem = Problem("R-10E", path, "a file with one JSON object", found, action)


def _read(path: str) -> Mapping[str, JsonValue]:
    try:
        value = parse(Path(path).read_bytes())
    except OSError as error:
        raise _UnusableFile(path, f"none that can be read ({type(error).__name__})") from None
    except DocumentError as error:
        raise _UnusableFile(path, f"this: {error}") from None
    if not isinstance(value, Mapping):
        raise _UnusableFile(path, show(value))
    return value


def _whole(document: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The document that a plan or a report stands in, where only one of them was given."""
    is_part = _SECTION not in document and ("paths" in document or "required" in document)
    return {_SECTION: document} if is_part else document


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
