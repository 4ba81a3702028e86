"""What becomes of a lie without a check, and the checks that are kept although no lie is believed without them.

A check goes by the beginning of its `site`. Each is listed under what it is for; the list is held against the rules in
both directions, so that nothing stands here that a lie of the catalogue needs after all.
"""

from collections.abc import Mapping
from enum import Enum

__all__ = ["KEPT", "Missed"]


class Missed(Enum):
    """How a lie gets through without a check; the worst comes first."""

    BELIEVED = 1
    """A definitive verdict is recorded."""
    PASSED = 2
    """Its gate passes; another one withholds the verdict."""
    NOT_JUDGED = 3
    """What comes after the check cannot go on, and there is no judgment."""
    NOT_NAMED = 4
    """The verdict is withheld all the same, and the problem that its gate named is gone."""
    NEVER = 5
    """The lie is found out all the same, or none of the catalogue meets the check."""


KEPT: Mapping[Missed, Mapping[str, tuple[str, ...]]] = {
    Missed.NOT_JUDGED: {
        "there is no report, or no plan, to go on with": (
            "activation, check_activation: Problem('R-123'",
            "decision, decide_run: Problem('R-141'",
            "manifests, read_manifests: Problem('R-181'",
            "restoration/gate, _nothing_reported: Problem('R-091'",
        ),
        "there are no bytes to go on with, or they are in no form that can be read": (
            "decision, _retained_rows: Problem('R-142', path, expected, show(reference)",
            "decision, _retained_rows: Problem('R-16C'",
            "prediction_checks, _check_score: Problem('R-16C'",
            "documents/observations, read_file: Problem('R-142', path, 'strict UTF-8",
            "documents/observations, read_rows: Problem('R-141'",
            "documents/observations, _row_problems: Problem('R-141'",
            "documents/observations, _row_problems: Problem('R-143', f'{path}.{name}'",
            "documents/generated_tasks, _read: findings.miss('R-191', f'{path}[{index}].{gap.name}'",
        ),
        "there is no complete grid to compute a decision from": (
            "decision_grid, _one_evaluator: findings.add('R-143'",
            "decision_grid, _one_evaluator: findings.add('R-146', path, 'an evaluator",
            "decision_grid, _one_evaluator: findings.add('R-146', path, f'one evaluator",
            "decision_grid, _sound: findings.add('R-145'",
            "decision_grid, find_missing: self._findings.add('R-143'",
        ),
        "the method cannot compute anything from it": (
            "decision_plan, rule_problems: _problem('method'",
            "decision_plan, _rule_level: _problem('seeds', expected",
            "decision_sample, _check_method: findings.add('R-140', path, expected",
        ),
    },
    Missed.NOT_NAMED: {
        "one sentence says what is wrong, where others would say what follows from it": (
            "correctness/check, check_correctness: findings.miss('R-100'",
            "evaluation, check_comparability: Problem('R-130'",
            "documents/generation_audit, _sample: self._miss(f'{path}.item_id'",
            "documents/restoration_plan, read: self._refuse('R-090', f'{_SECTION}.groups'",
        ),
        "it bounds what is read, at a number that no run reaches without breaking another check": (
            "documents/manifests, parse_manifests: findings.miss('R-181', MANIFESTS, expected",
            "documents/observations, read_rows: Problem('R-142', path, f'at most {MAX_ROWS} rows'",
        ),
        "lint says it of a spec alone, before there are rows to be counted": (
            "decision_plan, _rule_level: _problem('seeds', f'at least",
        ),
        "it makes the gate failed, which is unverified for what else is wrong": (
            "generation_audit/timing, _check_training: findings.contradict('R-196'",
        ),
        "nothing at all would be recorded, where inconclusive has to be": (
            "outcome, _execution_objections: found.append(f'The run ended without a final update",
            "outcome, _verdict_objections: Objection(Basis.REPORT",
        ),
    },
    Missed.NEVER: {
        "lint says it of a spec alone; a run has its lists resolved and compared": (
            "documents/selection, _lists: not_disjoint(shared)",
        ),
        "only the helper that audits a data set by itself can be given an empty list": (
            "generation_audit/validation, _check_overlap: findings.miss('R-191'",
        ),
    },
}
"""By what becomes of the lies that meet the check, and by what it is for."""
