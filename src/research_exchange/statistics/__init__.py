"""Intervals for paired comparisons: contrasts, the methods that bound their mean, and the registry that names them.

Pure functions of numbers, standard library only. What a margin makes of an interval is decided elsewhere.
"""

from research_exchange.statistics.contrasts import Range, contrast, contrast_range, mean
from research_exchange.statistics.hoeffding import half_width, paired_hoeffding
from research_exchange.statistics.intervals import Interval
from research_exchange.statistics.methods import METHODS, UNITS, Method

__all__ = [
    "METHODS",
    "UNITS",
    "Interval",
    "Method",
    "Range",
    "contrast",
    "contrast_range",
    "half_width",
    "mean",
    "paired_hoeffding",
]
