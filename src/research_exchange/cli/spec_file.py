"""A spec on this machine's disk, beside the scripts that it names."""

from dataclasses import dataclass
from pathlib import Path

from research_exchange.cli.console import UsageProblem, read_bytes
from research_exchange.documents.json import DocumentError
from research_exchange.documents.spec import Spec


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
        """Raises UsageProblem when there is no such file, or no spec in it."""
        return cls(path, read_spec(path))

    @property
    def folder(self) -> Path:
        return self.path.resolve().parent
