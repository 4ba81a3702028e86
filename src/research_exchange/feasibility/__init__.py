"""Whether a run fits its budget, projected from what a timing pilot measured (contract §15).

A projection is neither a metric nor observed usage, and it is never scaled by the size of a model.
"""

from research_exchange.feasibility.check import FeasibilityCheck, FeasibilityStatus, check_feasibility

__all__ = ["FeasibilityCheck", "FeasibilityStatus", "check_feasibility"]
