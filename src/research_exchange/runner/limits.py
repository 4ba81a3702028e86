"""What a command may use of the machine."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

__all__ = ["NO_LIMITS", "Limits"]

_GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of the operating system, for each process of a command by itself; None is no limit of ours.

    Whatever is set here, a command that crashes leaves no core dump.
    """

    memory: float | None = None
    """GiB of address space. A CUDA process reserves far more of it than it ever uses."""
    cpu: float | None = None
    """Minutes of processor time; beyond it the process is killed."""
    file: float | None = None
    """GiB of the largest file that it may write, its log included."""
    files: float | None = None
    """How many files it may have open."""

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "Limits":
        """From texts such as `memory=8`.

        Raises:
            ValueError: with one sentence, for a text of another form.
        """
        names = tuple(field.name for field in fields(cls))
        given: dict[str, float] = {}
        for text in texts:
            name, _, number = text.partition("=")
            try:
                given[name] = float(number)
            except ValueError:
                given[name] = 0.0
            if name not in names or not 0 < given[name] < 1e9:
                raise ValueError(
                    f"A limit is NAME=NUMBER, with {' or '.join(names)} and a number above 0; found {text!r}."
                )
        return cls(**given)

    def values(self) -> dict[str, int]:
        """By the names of the `resource` module, those that are set."""
        wanted = {
            "RLIMIT_AS": self.memory and self.memory * _GIB,
            "RLIMIT_CPU": self.cpu and self.cpu * 60,
            "RLIMIT_FSIZE": self.file and self.file * _GIB,
            "RLIMIT_NOFILE": self.files,
        }
        return {name: max(1, int(value)) for name, value in wanted.items() if value is not None}


NO_LIMITS = Limits()
