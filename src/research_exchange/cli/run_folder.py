"""A run on the disk: one run document, a bundle, or a folder with a file for each part.

A folder holds `spec.json`, `updates/*.json` in order of name, `evidence.json` with a record
`{"name", "kind", "sha256"?, "update"?, "after"?}` for each file in `evidence/`, and, for a run that ended without a
final update, `ended.txt` with why.
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from research_exchange.cli.bundle_file import is_bundle, read_bundle
from research_exchange.cli.console import UsageProblem, read_bytes
from research_exchange.cli.spec_file import read_spec
from research_exchange.documents.evidence import EvidenceFile
from research_exchange.documents.fields import show, show_names
from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.documents.run_document import RunDocument, evidence_file, numbered_updates

__all__ = ["read_run"]


def read_run(path: Path) -> RunDocument:
    """The run in a file or a folder. Raises UsageProblem where there is none."""
    if is_bundle(path):
        return read_bundle(path).document
    if path.is_dir():
        return _read_folder(path)
    try:
        return RunDocument.parse(read_bytes(path, "a run document, or a folder with spec.json and updates"))
    except DocumentError as error:
        raise UsageProblem(f"{path} is not a run document: {error}") from None


def _read_folder(folder: Path) -> RunDocument:
    ended = folder / "ended.txt"
    return RunDocument(
        spec=read_spec(_plain(folder / "spec.json")),
        updates=numbered_updates([read_bytes(path, "an update") for path in _updates(folder)]),
        evidence=_evidence(folder),
        ended=read_bytes(ended, "why the run ended").decode("utf-8", "replace").strip() if _is_there(ended) else None,
    )


def _plain(path: Path) -> Path:
    """The same path. Raises UsageProblem for a pipe, a device or a folder, from which a reader may wait for ever."""
    if path.exists() and not path.is_file():
        raise UsageProblem(f"{path} is not a plain file, so nothing is read from it; put a plain file in its place.")
    return path


def _is_there(path: Path) -> bool:
    return _plain(path).exists()


def _updates(folder: Path) -> list[Path]:
    """In order of name, where 2 comes before 10."""
    return sorted(map(_plain, (folder / "updates").glob("*.json")), key=lambda path: _in_order(path.name))


def _in_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _evidence(folder: Path) -> tuple[EvidenceFile, ...]:
    listing = folder / "evidence.json"
    records = _records(listing) if _is_there(listing) else []
    files = [_file(folder, record, f"{listing}[{index}]") for index, record in enumerate(records)]
    counts = Counter(file.name for file in files)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise UsageProblem(f"{listing} lists {show_names(twice)} twice; keep one of them.")
    unlisted = sorted(path.name for path in (folder / "evidence").glob("[!.]*") if path.name not in counts)
    if unlisted:
        raise UsageProblem(f"{listing} does not list {show_names(unlisted)}; add a record with its name and kind.")
    return tuple(files)


def _records(listing: Path) -> list[JsonValue]:
    try:
        records = parse(read_bytes(listing, "the list of evidence"))
    except DocumentError as error:
        raise UsageProblem(f"{listing} cannot be used: {error}") from None
    if not isinstance(records, list):
        raise UsageProblem(f"{listing} is a list of records; found {show(records)}.")
    return records


def _file(folder: Path, record: JsonValue, path: str) -> EvidenceFile:
    """A listed file that is not there, or has another hash than its record's, counts as lost where it is used."""
    if not isinstance(record, Mapping):
        raise UsageProblem(f"{path} is an object; found {show(record)}.")
    name = record.get("name")
    if isinstance(name, str) and (Path(name).name != name or name == ".."):
        raise UsageProblem(f"{path}.name is a plain file name; found {show(name)}.")
    stored = folder / "evidence" / str(name)
    content = read_bytes(stored, "the file") if _is_there(stored) else None
    try:
        return evidence_file(record, content, path)
    except DocumentError as error:
        raise UsageProblem(f"{error}") from None
