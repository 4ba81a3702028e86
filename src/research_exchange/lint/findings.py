"""What lint says about a spec: a level, a rule, a place, and a sentence that says what to change."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from research_exchange.documents.gates import Problem

__all__ = ["Finding", "Level", "error", "of_problem", "question", "warning"]


class Level(StrEnum):
    """How much a finding weighs, heaviest first."""

    ERROR = "error"
    """A new version is not saved with it."""
    WARNING = "warning"
    """The version can be saved; a run of it will be worth less, or be stopped by a gate."""
    QUESTION = "question"
    """Only prose says it, so a reviewer decides whether something is wrong."""


@dataclass(frozen=True)
class Finding:
    """One thing that a researcher should change, or be sure of, before the spec is saved."""

    level: Level
    rule: str
    """E.g. "R-036"."""
    path: str
    """Where, in the spec's own words: `decision_rule.criteria[0].weights.treatment`."""
    text: str
    """What is wrong and what to do about it, in sentences."""

    def __str__(self) -> str:
        return f"{self.level} {self.rule} {self.path}: {self.text}"


def error(rule: str, path: str, text: str) -> Finding:
    return Finding(Level.ERROR, rule, path, text)


def warning(rule: str, path: str, text: str) -> Finding:
    return Finding(Level.WARNING, rule, path, text)


def question(rule: str, path: str, text: str) -> Finding:
    return Finding(Level.QUESTION, rule, path, text)


def of_problem(problem: Problem, level: Level, rules: Mapping[str, str]) -> Finding:
    """What a rule found wrong with the plan it will judge by, under lint's own number.

    Args:
        rules: From the rule that found it to the rule of lint; others keep their number.
    """
    text = f"Expected {problem.expected}, found {problem.found}. {problem.action}"
    return Finding(level, rules.get(problem.rule, problem.rule), problem.path, text)
