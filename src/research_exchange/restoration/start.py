"""Whether the arms of a group started from one and the same adapter: by their hashes, checkpoints and outputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from research_exchange.documents.fields import show
from research_exchange.documents.findings import Findings
from research_exchange.documents.provenance import ArmProvenance

__all__ = ["SharedValue", "compare_outputs", "compare_starts", "shared_values"]

_START_ALIKE = "Start the arms from one adapter: save its full initialization once and load it into each."
_NOT_ALIKE = "Stop: the arms differ before anything was trained. Start them again from one adapter."


def compare_starts(path: str, entries: Sequence[ArmProvenance], findings: Findings) -> None:
    """Nobody disagrees, and equal hashes or URIs connect all arms (R-094, R-095).

    Args:
        path: Where the group stands in the spec.
        entries: Those of its arms.
    """
    starts = [entry.initialization for entry in entries]
    _agree([(start.base_checkpoint, f"{start.path}.base_checkpoint") for start in starts], "R-094", findings)
    _agree([(start.adapter_sha256, f"{start.path}.adapter_sha256") for start in starts], "R-095", findings)
    _agree([(start.checkpoint_uri, f"{start.path}.checkpoint_uri") for start in starts], "R-095", findings)
    identities = [{start.adapter_sha256, start.checkpoint_uri} - {None} for start in starts]
    if len(entries) > 1 and all(identities) and not _is_connected(identities):
        expected = "hashes or URIs that arms have in common, so that all of them are connected"
        findings.miss("R-095", path, expected, "arms without any in common", _START_ALIKE)


def compare_outputs(entries: Sequence[ArmProvenance], findings: Findings) -> None:
    """The same batch gave the same outputs (R-099)."""
    outputs = [entry.output for entry in entries if entry.output.available]
    _agree([(output.batch_sha256, f"{output.path}.batch_sha256") for output in outputs], "R-099", findings)
    _agree([(output.output_sha256, f"{output.path}.output_sha256") for output in outputs], "R-099", findings)


def _agree(values: Sequence[tuple[str | None, str]], rule: str, findings: Findings) -> None:
    """Each value, where there is one, is the first of them."""
    known = [(value, path) for value, path in values if value is not None]
    for value, path in known[1:]:
        first, where = known[0]
        if value != first:
            findings.contradict(rule, path, f"{show(first)}, as {where} has it", show(value), _NOT_ALIKE)


def _is_connected(identities: Sequence[set[str | None]]) -> bool:
    reached, rest = set(identities[0]), list(identities[1:])
    while joined := [identity for identity in rest if identity & reached]:
        reached |= set().union(*joined)
        rest = [identity for identity in rest if not identity & reached]
    return not rest


@dataclass(frozen=True)
class SharedValue:
    """Something that every entry of a group reports alike."""

    name: str
    text: str
    evidence: tuple[str | None, ...]
    """The files that show it, one of each arm; none for what no file has to show."""


def shared_values(entries: Sequence[ArmProvenance]) -> Iterator[SharedValue]:
    """What the arms of a group have in common, for a reader of the gate."""
    starts, outputs = [entry.initialization for entry in entries], [entry.output for entry in entries]
    started, captured = tuple(start.evidence for start in starts), tuple(output.evidence for output in outputs)
    columns: tuple[tuple[str, list[str | None], tuple[str | None, ...]], ...] = (
        ("base_checkpoint", [start.base_checkpoint for start in starts], ()),
        ("adapter_sha256", [start.adapter_sha256 for start in starts], started),
        ("checkpoint_uri", [start.checkpoint_uri for start in starts], started),
        ("batch_sha256", [output.batch_sha256 for output in outputs], captured),
        ("output_sha256", [output.output_sha256 for output in outputs], captured),
    )
    for name, values, evidence in columns:
        text = values[0] if values else None
        if text is not None and len(set(values)) == 1:
            yield SharedValue(name, text, evidence)
