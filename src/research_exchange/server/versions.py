"""Spec versions: saved once with the context of their idea, and read in every way a researcher asks (R-002, R-003)."""

from dataclasses import dataclass

from research_exchange.credentials import find_credential
from research_exchange.documents.differences import Change, spec_diff
from research_exchange.documents.json import DocumentError
from research_exchange.documents.launch import LaunchMode
from research_exchange.documents.spec import Spec
from research_exchange.lint import Finding, Level, lint
from research_exchange.power import PowerCard, power_card
from research_exchange.server.access import Caller
from research_exchange.server.briefing import brief
from research_exchange.server.errors import ApiError, unknown_idea, unknown_spec
from research_exchange.store import Clock, Identifiers, Reader, RunPhase, RunRecord, SpecRecord, Store

NO_RUN = "run_0000000000"
"""In a brief that is read before there is a run."""


@dataclass(frozen=True)
class RegisteredSpec:
    spec: SpecRecord
    is_new: bool
    """False when the same bytes had been registered before."""
    findings: tuple[Finding, ...]
    """What lint remarks about it."""


@dataclass(frozen=True)
class Difference:
    before: SpecRecord
    after: SpecRecord
    changes: tuple[Change, ...]


class SpecVersions:
    """The spec versions of an Exchange. Each method raises `ApiError` for what it cannot do."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    def register(
        self, raw: bytes, who: Caller, *, idea_id: str | None = None, parent: str | None = None, legacy: bool = False
    ) -> RegisteredSpec:
        """Save a spec as an immutable version; the same bytes are the same version, and the first one stands (R-002).

        Args:
            raw: The spec, byte for byte.
            who: Who saves it.
            idea_id: The idea it comes from, by default its parent's; what that says now is its context for ever.
            parent: The version that it was made from.
            legacy: Save a spec with lint errors all the same, as one from before the rules (R-026). It is logged.
        """
        spec = parse_spec(raw)
        secret = find_credential(raw)
        if secret is not None:
            raise ApiError(
                422, f"R-243: The spec holds {secret.what} in line {secret.line}; name its variable instead."
            )
        findings = lint(spec)
        errors = [finding for finding in findings if finding.level is Level.ERROR]
        with self._store.writing() as writer:
            idea_id, snapshot = _origin(writer, idea_id, parent)
            known = writer.spec_with_digest(spec.sha256)
            if known is not None:
                return RegisteredSpec(known, is_new=False, findings=findings)
            if errors and not legacy:
                raise ApiError(
                    422,
                    f"The spec has {_counted(len(errors), 'error')} and is not saved; `rx lint` explains. "
                    "A spec from before the rules is saved with --legacy (over HTTP: ?legacy=true).",
                    [str(finding) for finding in errors],
                )
            record = SpecRecord(
                self._ids.spec(),
                spec.sha256,
                spec.title,
                self._clock(),
                raw,
                parent=parent,
                idea_id=idea_id,
                idea_snapshot=snapshot,
            )
            writer.add_spec(record)
            action = "spec.legacy" if errors else "spec.add"
            detail = {"title": record.title, "idea": record.idea_id, "parent": parent, "errors": len(errors)}
            writer.add_audit(record.created_at, who.actor, action, record.id, detail)
            return RegisteredSpec(record, is_new=True, findings=findings)

    def spec(self, spec_id: str) -> SpecRecord:
        with self._store.reading() as reader:
            return _known(reader, spec_id)

    def page(self, limit: int, offset: int, idea_id: str | None = None) -> tuple[list[SpecRecord], int]:
        """Newest first, and how many there are in all; of one idea where it is named."""
        with self._store.reading() as reader:
            return reader.specs(limit, offset, idea_id), reader.count_specs(idea_id)

    def lint(self, spec_id: str) -> tuple[Finding, ...]:
        return lint(Spec.parse(self.spec(spec_id).raw))

    def power(self, spec_id: str, items: int | None = None) -> PowerCard:
        """What its decision rule can tell, with `items` per arm or as many as it says (R-037)."""
        return power_card(Spec.parse(self.spec(spec_id).raw), n=items)

    def difference(self, spec_id: str, against: str | None = None) -> Difference:
        """What a version says otherwise than another, by default than its parent."""
        with self._store.reading() as reader:
            after = _known(reader, spec_id)
            before_id = against or after.parent
            if before_id is None:
                raise ApiError(
                    422, f"Spec {spec_id} was made from no other version; name the one to compare with: ?against=exp_…"
                )
            before = _known(reader, before_id)
        return Difference(before, after, spec_diff(Spec.parse(before.raw), Spec.parse(after.raw)))

    def brief(self, spec_id: str, profile: str, run_id: str | None = None) -> str:
        """The brief of a version, in Markdown: as a run of it gets it, or as one would."""
        with self._store.reading() as reader:
            spec = _known(reader, spec_id)
            no_run = RunRecord(NO_RUN, spec.id, spec.title, LaunchMode.ORDINARY, spec.created_at, RunPhase.CREATED)
            run = no_run if run_id is None else reader.run(run_id)
            if run is None or run.spec_id != spec_id:
                raise ApiError(404, f"No run {run_id!r} of {spec_id} is known here.")
            return brief(reader, run, profile).decode()


def _origin(reader: Reader, idea_id: str | None, parent: str | None) -> tuple[str | None, int | None]:
    """The idea that a version comes from, by default its parent's, and the number of what that says now."""
    if parent is not None:
        made_from = _known(reader, parent)
        idea_id = idea_id or made_from.idea_id
    if idea_id is None:
        return None, None
    snapshot = reader.current_snapshot(idea_id)
    if snapshot is None:
        raise unknown_idea(idea_id)
    return idea_id, snapshot.number


def parse_spec(raw: bytes) -> Spec:
    try:
        return Spec.parse(raw)
    except DocumentError as error:
        raise ApiError(422, f"The spec cannot be read: {error}") from None


def _known(reader: Reader, spec_id: str) -> SpecRecord:
    spec = reader.spec(spec_id)
    if spec is None:
        raise unknown_spec(spec_id)
    return spec


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
