"""How long the engine waits for what."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Durations in seconds."""

    sample_quiet: float = 0.015
    """A sampling batch starts once no request has arrived for this long ..."""
    sample_linger: float = 0.1
    """... or its first request has waited this long."""
    sample_sequences: int = 128
    """... or this many sequences are asked for. Requests join a batch that runs at once."""
    sample_slice: float = 0.25
    """Sampling goes on for this long while training waits, or for as long as the training turn before took."""
    gap: float = 360.0
    """A request id may stay missing this long: clients retry a submit for five minutes."""
    gap_after_refusal: float = 30.0
    """The same where a request's body could not be read, so that its id is known never to come."""
