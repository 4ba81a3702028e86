"""Whether a restored client takes the very update that the uninterrupted one takes (R-09E).

A restore that brings back the weights and loses the optimizer's state shows in nothing but the next update.
"""

from dataclasses import replace

from research_exchange.documents.correctness_plan import Tolerance
from research_exchange.documents.correctness_report import parse_errors
from research_exchange.documents.fields import show
from research_exchange.documents.findings import Findings
from research_exchange.documents.json import JsonValue

__all__ = ["check_equivalence"]


def check_equivalence(tolerance: Tolerance, reported: JsonValue, path: str, findings: Findings) -> None:
    """Holds the reported errors of one fixed-gradient update against the spec's tolerance, as in §9 of the contract.

    Args:
        reported: The errors as they stand at `path`; the reference is the uninterrupted client's update.
    """
    action = "Measure one update on a fixed gradient, restored against uninterrupted, before the sweep."
    if reported is None:
        findings.miss("R-09E", path, "the four errors of the update after a restore", "nothing", action)
        return
    errors = parse_errors(reported, "restored_update", path)
    findings.add_gaps(replace(problem, rule="R-09E") for problem in errors.gaps)
    largest, reference, cosine = errors.max_abs_error, errors.reference_max_abs, errors.cosine_similarity
    if reference == 0:
        findings.miss("R-09E", f"{path}.reference_max_abs", "an update that is not 0", "0", action)
    if largest is not None and reference is not None and largest > tolerance.limit(reference):
        expected = f"at most {tolerance.limit(reference)!r}"
        findings.contradict("R-09E", f"{path}.max_abs_error", expected, repr(largest), "Stop: the state was lost.")
    if tolerance.min_cosine is not None and cosine is not None and cosine < tolerance.min_cosine:
        where, expected = f"{path}.cosine_similarity", f"at least {show(tolerance.min_cosine)}"
        findings.contradict("R-09E", where, expected, repr(cosine), "Stop: the state was lost.")
