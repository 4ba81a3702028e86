"""The built-in losses by name."""

from spindle.backends.losses import formulas
from spindle.backends.losses.kinds import DatumLoss, Loss, TokenLoss

_SAMPLED = ("logprobs", "advantages")
"""What a loss about sampled tokens needs; there is one of them per position, so targets are [N]."""

UNPUBLISHED_LOSSES = {"stable_reinforce": "its formula is not published"}
"""Losses of the Tinker client that cannot be offered, and why."""

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        TokenLoss(name="cross_entropy", inputs=("weights",), several_targets=True, terms=formulas.cross_entropy),
        TokenLoss(
            name="importance_sampling",
            inputs=_SAMPLED,
            terms=formulas.importance_sampling,
            metrics=formulas.ratio_metrics,
        ),
        TokenLoss(
            name="ppo",
            inputs=_SAMPLED,
            defaults={formulas.LOW: 0.8, formulas.HIGH: 1.2},
            terms=formulas.ppo,
            metrics=formulas.ppo_metrics,
        ),
        TokenLoss(
            name="cispo",
            inputs=_SAMPLED,
            defaults={formulas.LOW: 0.0, formulas.HIGH: 4.0},
            terms=formulas.cispo,
            metrics=formulas.cispo_metrics,
        ),
        TokenLoss(
            name="dro",
            inputs=_SAMPLED,
            defaults={"beta": 0.05},
            terms=formulas.dro,
            metrics=formulas.ratio_metrics,
        ),
        DatumLoss(
            name="gspo",
            inputs=(*_SAMPLED, "sequence_ratio_mask"),
            defaults={formulas.LOW: 1 - 3e-4, formulas.HIGH: 1 + 4e-4},
            datum=formulas.gspo,
        ),
    )
}
