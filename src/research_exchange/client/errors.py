"""What can go wrong between a script and its Exchange."""

from collections.abc import Sequence

__all__ = ["ExchangeError", "ExchangeRefused", "ExchangeUnreachable", "SpecRefused"]


class ExchangeError(Exception):
    """Something between this script and the Exchange went wrong; the text is one sentence for a person."""


class ExchangeUnreachable(ExchangeError):
    """The Exchange did not answer within the time allowed."""


class ExchangeRefused(ExchangeError):
    """The Exchange understood and said no; asking again would not help."""

    def __init__(self, sentence: str, *, status: int, problems: Sequence[str] = (), rule: str | None = None) -> None:
        super().__init__(" ".join([sentence, *problems]))
        self.sentence = sentence
        """What was refused, without the problems."""
        self.status = status
        """The HTTP status."""
        self.problems = tuple(problems)
        """Each a sentence: the rule, where, expected, found, and what to do."""
        self.rule = rule
        """The number of the rule behind the refusal as a whole, where the Exchange names one."""

    @property
    def is_about_content(self) -> bool:
        """Whether it is for what was sent; not for the token, the address or the pace."""
        return self.status in {400, 409, 413, 415, 422}

    @property
    def is_for_want_of_room(self) -> bool:
        """Whether the run has as much already as a run may have (R-240)."""
        return (self.status, self.rule) == (409, "R-240")


class SpecRefused(ExchangeRefused):
    """The Exchange checked a spec, and lint finds errors in it (R-026)."""
