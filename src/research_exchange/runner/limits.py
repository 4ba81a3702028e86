"""What a command may use of the machine."""

import resource
from dataclasses import dataclass

__all__ = ["NO_LIMITS", "Limits"]

_GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of the operating system, for each process of a command by itself; None is no limit of ours.

    Whatever is set here, a command that crashes leaves no core dump.
    """

    memory_gib: float | None = None
    """Address space. A CUDA process reserves far more of it than it ever uses."""
    cpu_minutes: float | None = None
    """Processor time; beyond it the process is killed."""
    file_gib: float | None = None
    """The largest file it may write, its log included."""
    open_files: int | None = None

    def values(self) -> dict[str, int]:
        """By the names of the `resource` module, those that are set."""
        wanted = {
            "RLIMIT_AS": self.memory_gib and self.memory_gib * _GIB,
            "RLIMIT_CPU": self.cpu_minutes and self.cpu_minutes * 60,
            "RLIMIT_FSIZE": self.file_gib and self.file_gib * _GIB,
            "RLIMIT_NOFILE": self.open_files,
        }
        return {name: int(value) for name, value in wanted.items() if value is not None and hasattr(resource, name)}


NO_LIMITS = Limits()
