"""The audit of generated training data: are the labels right, and are the tasks kept apart from the evaluation (§17)?

A runner selects a sample with `select_sample`, has it solved again from the text alone, compares with
`answer_agreement` and `evaluation_overlap`, and trains once `validate` says `passed`. The Exchange reads the same
report against the files that the run retains.

Agreement with a declared solution does not make a label true, and a program that ran verifies no label (R-198).
"""

from research_exchange.generation_audit.answers import answer_agreement
from research_exchange.generation_audit.gate import plan_problems, read_generation_audit
from research_exchange.generation_audit.prompts import Overlap, evaluation_overlap
from research_exchange.generation_audit.validation import Validation, select_sample, validate

__all__ = [
    "Overlap",
    "Validation",
    "answer_agreement",
    "evaluation_overlap",
    "plan_problems",
    "read_generation_audit",
    "select_sample",
    "validate",
]
