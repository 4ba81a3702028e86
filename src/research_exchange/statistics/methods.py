"""The registry of decision methods: a method's name is part of the immutable spec, and it alone decides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from research_exchange.statistics.betting import cs_betting, paired_betting
from research_exchange.statistics.hoeffding import paired_hoeffding
from research_exchange.statistics.intervals import Interval
from research_exchange.statistics.paired_proportions import paired_exact_discordant, paired_newcombe, paired_tango
from research_exchange.statistics.proportions import clopper_pearson, wilson
from research_exchange.statistics.sample import Sample
from research_exchange.statistics.sequences import cs_empirical_bernstein, cs_normal_mixture
from research_exchange.statistics.variance import paired_empirical_bernstein, paired_t

__all__ = ["ITEMS", "METHODS", "SEEDS", "UNITS", "Guarantee", "Method", "Shape"]

ITEMS = "fixed_checkpoint_items"
SEEDS = "training_seeds"
UNITS: Mapping[str, str] = {
    ITEMS: "It speaks about these checkpoints on items like these, and says nothing about another training seed.",
    SEEDS: "It speaks about training again with another seed, on these very items.",
}
"""The values of `decision_rule.unit`, each with what a conclusion over it means, for a reader."""


class Guarantee(StrEnum):
    """How far a method's error probability can be relied on."""

    FINITE_SAMPLE = "finite_sample"
    """At every n and for every distribution that the method admits."""
    ANYTIME = "anytime"
    """As above, and at every look while rows come in."""
    ASYMPTOTIC = "asymptotic"
    """Nearly, once there are enough units."""
    CONDITIONAL = "conditional"
    """Under an assumption that the rows cannot show."""


class Shape(StrEnum):
    """The comparisons a method is made for."""

    ANY = "any"
    """Any weights, any values inside the bounds."""
    PAIR = "pair"
    """Two arms with opposite weights; each value is one end of the bounds, a failure or a success."""
    SINGLE = "single"
    """One arm against the margin; each value is one end of the bounds."""


@dataclass(frozen=True)
class Method:
    """What a method asks of the data, and how it makes an interval."""

    requirements: str
    """One sentence for people who write a spec."""
    guarantee: Guarantee
    interval: Callable[[Sample, float], Interval]
    """From a sample and the two-sided error probability α."""
    units: tuple[str, ...] = (ITEMS,)
    """The values of `decision_rule.unit` it is valid for."""
    shape: Shape = Shape.ANY
    least: int = 1
    """The fewest units it can be computed from, or be believed with."""
    clusters: bool = False
    """Whether it allows for items that depend on each other."""
    populations: bool = False
    """Whether it gains from a random subset of a fixed list."""
    ordered: bool = False
    """Whether it depends on the order of items, which then is that of their hashed ids."""
    condition: str | None = None
    """What a conclusion is conditional on."""


METHODS: Mapping[str, Method] = {
    "paired_hoeffding": Method(
        requirements="Independent items and explicit bounds; holds for every n and every distribution.",
        guarantee=Guarantee.FINITE_SAMPLE,
        interval=paired_hoeffding,
        clusters=True,
        populations=True,
    ),
    "paired_empirical_bernstein": Method(
        requirements="Independent items and explicit bounds, at least 2 items; narrow where contrasts vary little.",
        guarantee=Guarantee.FINITE_SAMPLE,
        interval=paired_empirical_bernstein,
        least=2,
    ),
    "paired_exact_discordant": Method(
        requirements="Independent items that two arms pass or fail, one seed; holds for every n.",
        guarantee=Guarantee.FINITE_SAMPLE,
        interval=paired_exact_discordant,
        shape=Shape.PAIR,
    ),
    "paired_betting": Method(
        requirements="Independent items and explicit bounds; narrow, and read in the order of sha256(item_id).",
        guarantee=Guarantee.FINITE_SAMPLE,
        interval=paired_betting,
        ordered=True,
    ),
    "paired_tango": Method(
        requirements="Independent items that two arms pass or fail, one seed, at least 100 items; asymptotic.",
        guarantee=Guarantee.ASYMPTOTIC,
        interval=paired_tango,
        shape=Shape.PAIR,
        least=100,
    ),
    "paired_newcombe": Method(
        requirements="Independent items that two arms pass or fail, one seed, at least 100 items; asymptotic.",
        guarantee=Guarantee.ASYMPTOTIC,
        interval=paired_newcombe,
        shape=Shape.PAIR,
        least=100,
    ),
    "paired_t": Method(
        requirements="At least 3 training seeds, as the unit, whose effects are normally distributed.",
        guarantee=Guarantee.CONDITIONAL,
        interval=paired_t,
        units=(SEEDS,),
        least=3,
        condition="the effects of training seeds being normally distributed",
    ),
    "clopper_pearson": Method(
        requirements="Independent items that one arm passes or fails, one seed, against a constant; holds for every n.",
        guarantee=Guarantee.FINITE_SAMPLE,
        interval=clopper_pearson,
        shape=Shape.SINGLE,
    ),
    "wilson": Method(
        requirements="Independent items that one arm passes or fails, one seed, at least 100 items; asymptotic.",
        guarantee=Guarantee.ASYMPTOTIC,
        interval=wilson,
        shape=Shape.SINGLE,
        least=100,
    ),
    "cs_normal_mixture": Method(
        requirements="Independent items and explicit bounds; holds at every look.",
        guarantee=Guarantee.ANYTIME,
        interval=cs_normal_mixture,
    ),
    "cs_empirical_bernstein": Method(
        requirements="Independent items and explicit bounds, in the order of sha256(item_id); holds at every look.",
        guarantee=Guarantee.ANYTIME,
        interval=cs_empirical_bernstein,
        ordered=True,
    ),
    "cs_betting": Method(
        requirements="Independent items and explicit bounds, in the order of sha256(item_id); holds at every look.",
        guarantee=Guarantee.ANYTIME,
        interval=cs_betting,
        ordered=True,
    ),
}
