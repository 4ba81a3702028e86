"""A spec on this machine's disk, with what the local runner needs from it."""

from dataclasses import dataclass
from pathlib import Path

from research_exchange.cli.console import UsageProblem, read_bytes
from research_exchange.documents.json import DocumentError
from research_exchange.documents.spec import Spec

DEFAULT_WALL_MINUTES = 60.0
"""For a spec whose budget names no `max_wall_minutes`."""


def read_spec(path: Path) -> Spec:
    """The spec in a file. Raises UsageProblem when there is no such file, or no spec in it."""
    try:
        return Spec.parse(read_bytes(path, "the spec's JSON file"))
    except DocumentError as error:
        raise UsageProblem(f"{path} is not a spec: {error}") from error


@dataclass(frozen=True)
class SpecFile:
    """A spec and the folder that holds its scripts."""

    path: Path
    spec: Spec

    @classmethod
    def read(cls, path: Path) -> "SpecFile":
        """Raises UsageProblem when there is no such file, no spec in it, or nothing to run."""
        spec = read_spec(path)
        command = spec.value.get("command")
        if not isinstance(command, str) or not command.strip():
            raise UsageProblem(f'{path} has no command to run; add "command", for example "python train.py".')
        return cls(path, spec)

    @property
    def folder(self) -> Path:
        return self.path.resolve().parent

    @property
    def command(self) -> str:
        """A line for the shell, to be run in a copy of `folder`."""
        return str(self.spec.value["command"])

    @property
    def wall_seconds(self) -> float:
        """How long the command may take."""
        minutes = self.spec.section("budget").get("max_wall_minutes")
        return 60.0 * (minutes if isinstance(minutes, int | float) and minutes > 0 else DEFAULT_WALL_MINUTES)
