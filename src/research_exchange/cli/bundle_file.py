"""A bundle on this machine's disk, as the run that is in it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from research_exchange.bundles import (
    Contents,
    NotABundle,
    contents_of,
    documents_of,
    integrity_problems,
    kept,
    open_members,
    read_record,
)
from research_exchange.bundles.record import RECORD, RunRecord
from research_exchange.cli.console import UsageProblem
from research_exchange.documents.json import DocumentError
from research_exchange.documents.run_document import RunDocument

if TYPE_CHECKING:
    from research_exchange.client import Exchange

__all__ = ["BundledRun", "fetch_bundle", "is_bundle", "read_bundle"]


@dataclass(frozen=True)
class BundledRun:
    """A run that was exported, with its bytes in memory."""

    record: RunRecord
    document: RunDocument
    contents: Contents


def is_bundle(path: Path) -> bool:
    """Whether a path looks like one: a zip file, or a folder with the record of a run."""
    if path.is_dir():
        return (path / RECORD).is_file()
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def read_bundle(path: Path) -> BundledRun:
    """The run in a bundle. Raises UsageProblem where there is none, or one that was changed."""
    try:
        with open_members(path) as members:
            record = read_record(members)
            contents = {name: kept(content()) for name, content in contents_of(members).items()}
            document = documents_of(record, contents)
            if integrity_problems(members, record):
                raise UsageProblem(f"{path} is not as it was exported; `rx verify {path}` says where.")
    except NotABundle as trouble:
        raise UsageProblem(f"{trouble} Name a run (run_ and 10 hexadecimal digits) or a bundle.") from None
    except DocumentError as trouble:
        raise UsageProblem(f"{path} cannot be used: {trouble} `rx verify {path}` says more.") from None
    return BundledRun(record, document, contents)


def fetch_bundle(connected: "Exchange", run_id: str) -> BundledRun:
    """The run as an Exchange exports it now."""
    with TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.zip"
        bundle.write_bytes(connected.bundle(run_id))
        return read_bundle(bundle)
