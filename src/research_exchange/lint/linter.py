"""Every check of a spec, in the order in which a reader should hear of them."""

from collections.abc import Callable, Iterator
from itertools import islice

from research_exchange.documents.spec import Spec
from research_exchange.lint import endpoint, essentials, plans, prose, reach, settings
from research_exchange.lint.findings import Finding, Level

__all__ = ["CHECKS", "MAX_OF_A_CHECK", "lint"]

MAX_OF_A_CHECK = 50
"""Findings of one check that are named: a spec that is wrong throughout needs no sentence per entry."""

CHECKS: tuple[Callable[[Spec], Iterator[Finding]], ...] = (
    essentials.texts,
    essentials.budget,
    essentials.features,
    essentials.arms,
    endpoint.rule,
    reach.verdicts,
    plans.correctness_plan,
    plans.activation_plan,
    plans.restoration_plan,
    plans.audit_plan,
    plans.selection_plan,
    plans.learning_rate_grids,
    essentials.conflicts,
    endpoint.without_rule,
    endpoint.nonlinear,
    endpoint.one_seed,
    plans.pins,
    settings.optimizer_configs,
    settings.optimizer_families,
    settings.command_settings,
    settings.learning_rates,
    settings.steps,
    settings.batches,
    settings.prompts,
    settings.seeds,
    prose.optimizers,
    prose.batches,
    prose.step_counts,
    prose.seed_counts,
    prose.item_counts,
    prose.margins,
    prose.confidence,
    plans.feasibility_plan,
    essentials.fields,
    prose.claims,
    prose.ties,
    prose.unsettled,
    prose.custom_paths,
    prose.served_model,
    endpoint.direction,
)
"""What weighs most stands first; among findings of one level this order is kept."""


def lint(spec: Spec) -> tuple[Finding, ...]:
    """What is wrong, doubtful or worth asking about a spec: errors first, then warnings, then questions.

    A version with an error is not saved as a new one; an older version stays valid and runnable (R-026). Never raises.
    """
    found = [finding for check in CHECKS for finding in islice(check(spec), MAX_OF_A_CHECK)]
    levels = list(Level)
    return tuple(sorted(found, key=lambda finding: levels.index(finding.level)))
