"""Reads an experiment spec before it is saved, and says what a researcher should change (contract §3).

Each module yields findings about one side of a spec; nothing here judges a run, and nothing is inferred from names or
titles. Where a rule will apply a plan, lint asks that rule what is wrong with it.
"""

from research_exchange.lint.findings import Finding, Level
from research_exchange.lint.linter import lint

__all__ = ["Finding", "Level", "lint"]
