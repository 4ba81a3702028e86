"""The first draft of a spec: every part that a spec has, in the order in which it is read, and what is known filled in.

What nobody has decided yet stays empty, so `rx lint` of a draft is the list of what is missing. Nothing is guessed:
which features an experiment has, what counts as success and what may be spent are the researcher's to say.
"""

from research_exchange.documents.idea import IdeaContext
from research_exchange.documents.json import JsonValue
from research_exchange.experiment_features import FEATURES

__all__ = ["draft_spec", "idea_draft"]


def draft_spec(title: str, **known: JsonValue) -> dict[str, JsonValue]:
    """A spec with every part that it should have.

    Args:
        title: What it is called.
        known: Top-level parts that are decided already, such as `hypothesis`; others than the usual ones come last.
    """
    empty: dict[str, JsonValue] = {
        "title": title,
        "hypothesis": "",
        "method": "",
        "base_model": "",
        "training_type": "",
        "dataset": {"name": "", "split": "", "n_examples": None},
        "optimizer": {},
        "steps": None,
        "batch_size": None,
        "eval": {"benchmark": "", "metric": "", "n_examples": None},
        "baseline": "",
        "experiment_features": dict.fromkeys(FEATURES),
        "arms": [],
        "success_criterion": "",
        "decision_rule": None,
        "budget": {"gpu_hours": None, "max_wall_minutes": None},
        "command": "",
    }
    return {**empty, **known}


def idea_draft(idea: IdeaContext) -> dict[str, JsonValue]:
    """The draft that an idea gives: its title, and its summary as the hypothesis to sharpen."""
    return draft_spec(idea.title, hypothesis=idea.summary)
