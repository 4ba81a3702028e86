"""Intervals for paired comparisons: contrasts, the methods that bound their mean, and the registry that names them.

Pure functions of numbers, standard library only. What a margin makes of an interval is decided elsewhere.
"""

from research_exchange.statistics.contrasts import Range, contrast_range, contrasts, mean, seed_contrasts
from research_exchange.statistics.hoeffding import half_width, paired_hoeffding, sample_size
from research_exchange.statistics.intervals import Interval
from research_exchange.statistics.methods import ITEMS, METHODS, SEEDS, UNITS, Guarantee, Method, Shape
from research_exchange.statistics.paired_proportions import difference_bonett_price
from research_exchange.statistics.proportions import mcnemar_exact
from research_exchange.statistics.sample import PairTable, Sample, pair_table
from research_exchange.statistics.sampling import select_ids
from research_exchange.statistics.sequences import cs_asymptotic

__all__ = [
    "ITEMS",
    "METHODS",
    "SEEDS",
    "UNITS",
    "Guarantee",
    "Interval",
    "Method",
    "PairTable",
    "Range",
    "Sample",
    "Shape",
    "contrast_range",
    "contrasts",
    "cs_asymptotic",
    "difference_bonett_price",
    "half_width",
    "mcnemar_exact",
    "mean",
    "pair_table",
    "paired_hoeffding",
    "sample_size",
    "seed_contrasts",
    "select_ids",
]
