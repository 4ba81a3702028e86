"""What the files behind a proof show: a reference to a file that does not bear the claim out is no evidence.

A claim is held against the retained bytes in whatever form they were kept: a JSON response, JSON Lines, a log, the
printed form of an SDK object, or the very file that was hashed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from research_exchange.documents.evidence import EvidenceFile, EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import is_number, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Provenance
from research_exchange.documents.json import JsonValue

__all__ = ["ProofFiles"]

MAX_LOOKED_AT = 128 * 1024
"""Bytes of a file that are searched; a response to one request is shorter."""

_STATEMENT = re.compile(
    r"""\b([A-Za-z_][A-Za-z0-9_]{0,63})\\?["']?[ \t]{0,4}[:=][ \t\n]{0,4}\\?["']?([^\s,;(){}\[\]"'\\]{1,80})"""
)
"""A name and a value: `"eps": 1e-08`, `eps=1e-08`, `eps: 1e-08`."""
_WORD = re.compile(r"""[^\s,;=(){}\[\]<>"'\\]+""")


class _Answer(Enum):
    """What a file says about a claim."""

    SHOWN = auto()
    OTHERWISE = auto()
    """It gives the name other values only."""
    SILENT = auto()


@dataclass(frozen=True)
class _Exhibit:
    """One file, read for what it states; everything in lower case."""

    sha256: str
    words: frozenset[str]
    statements: frozenset[tuple[str, str | float]]
    """Name and value; a number stands here as its word and as itself."""
    first: Mapping[str, str]
    """Name to the first value it is given."""

    def says(self, name: str, value: JsonValue) -> _Answer:
        if isinstance(value, bool):
            shown = (name, str(value).lower()) in self.statements
        elif is_number(value):
            shown = (name, float(value)) in self.statements
        elif isinstance(value, str):
            shown = value == self.sha256 or (name, value.lower()) in self.statements or self._mentions(value)
        else:
            return _Answer.SHOWN if name in self.words else _Answer.SILENT
        if shown:
            return _Answer.SHOWN
        return _Answer.OTHERWISE if name in self.first else _Answer.SILENT

    def _mentions(self, text: str) -> bool:
        words = _words(text.lower())
        return bool(words) and words <= self.words


class ProofFiles:
    """A run's files as proofs; each is read at most once."""

    def __init__(self, shelf: EvidenceShelf) -> None:
        self._shelf = shelf
        self._exhibits: dict[str, _Exhibit | EvidenceLost] = {}

    def source_of(self, digest: str, names: Sequence[str | None]) -> Provenance:
        """Recomputed where the files are the very ones that were hashed; otherwise the runner's word."""
        files = [None if name is None else self._shelf.find(name) for name in names]
        is_hashed = bool(files) and all(file is not None and file.sha256 == digest for file in files)
        return Provenance.RECOMPUTED if is_hashed else Provenance.DECLARED

    def last_after(self, names: Iterable[str | None]) -> int:
        """The update after which the last of these files was retained; 0 where there is none."""
        files = [self._shelf.find(name) for name in dict.fromkeys(names) if name is not None]
        return max((file.after for file in files if file is not None), default=0)

    def last_update(self, names: Iterable[str | None]) -> int:
        """The newest update that carried one of these files; 0 where none did."""
        files = [self._shelf.find(name) for name in dict.fromkeys(names) if name is not None]
        return max((file.update or 0 for file in files if file is not None), default=0)

    def check(
        self, claims: Mapping[str, JsonValue], name: str | None, rule: str, path: str, findings: Findings
    ) -> None:
        """Holds claims, by the names they go by, against a file.

        Args:
            name: The file; None where the report names none, which its parser notes.
            path: Where the claims stand in the report.
        """
        if name is None:
            return
        where, file = f"{path}.evidence_ref", self._shelf.find(name)
        if file is None:
            action = "Retain it as evidence before the clients are released."
            findings.miss(rule, where, "a file that the run retains", f"{show(name)}, which it does not", action)
            return
        exhibit = self._read(file)
        if isinstance(exhibit, EvidenceLost):
            action = "Attach it again under a new name."
            findings.miss("R-16C", where, "the bytes that were accepted", str(exhibit), action)
            return
        for key, value in claims.items():
            answer = exhibit.says(key.lower(), value)
            if answer is _Answer.SHOWN or (answer is _Answer.SILENT and not findings.takes_gaps):
                continue
            expected = f"{key} {show(value)} in {show(name)}"
            if answer is _Answer.OTHERWISE:
                found = f"{key} {show(exhibit.first[key.lower()])}"
                findings.contradict(rule, where, expected, found, "Report what the response says.")
            else:
                findings.miss(rule, where, expected, "no mention of it", "Retain the response that shows it.")

    def _read(self, file: EvidenceFile) -> _Exhibit | EvidenceLost:
        if file.name not in self._exhibits:
            self._exhibits[file.name] = self._try(file)
        return self._exhibits[file.name]

    def _try(self, file: EvidenceFile) -> _Exhibit | EvidenceLost:
        try:
            text = self._shelf.read(file.name)[:MAX_LOOKED_AT].decode("utf-8", "replace").lower()
        except EvidenceLost as lost:
            return lost
        first: dict[str, str] = {}
        statements: set[tuple[str, str | float]] = set()
        found = _STATEMENT.findall(text)
        for name, word in found:
            first.setdefault(name, word)
            statements.update((name, meaning) for meaning in _meanings(word))
        return _Exhibit(file.sha256, _words(text) | {word for _, word in found}, frozenset(statements), first)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip(".:") for word in _WORD.findall(text)) - {""}


def _meanings(word: str) -> tuple[str | float, ...]:
    try:
        return (word, float(word))
    except ValueError:
        return (word,)
