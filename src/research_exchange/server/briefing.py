"""The brief of a run, from what the store holds (R-050, R-051)."""

from research_exchange.briefs import BriefInput, render_brief, service_profile
from research_exchange.documents.idea import IdeaContext
from research_exchange.documents.spec import Spec
from research_exchange.feasibility import check_feasibility
from research_exchange.server.errors import ApiError
from research_exchange.server.ideas import context_of
from research_exchange.store import Reader, RunRecord, SpecRecord

DEFAULT_PROFILE = "spindle"


def brief_input(reader: Reader, run: RunRecord, profile: str) -> BriefInput:
    """Everything that decides the bytes of a run's brief.

    Raises:
        ApiError: 422 for a service profile that there is not.
    """
    record = reader.spec(run.spec_id)
    assert record is not None, "a foreign key says that every run has its spec"
    spec = Spec.parse(record.raw)
    try:
        return BriefInput(
            spec=spec,
            spec_id=record.id,
            run_id=run.id,
            launch_mode=run.launch_mode,
            profile=service_profile(profile),
            context=_context(reader, record),
            feasibility_check=check_feasibility(spec).to_json(),
        )
    except ValueError as error:
        raise ApiError(422, f"{error}") from None


def brief(reader: Reader, run: RunRecord, profile: str) -> bytes:
    """The brief as Markdown in UTF-8."""
    return render_brief(brief_input(reader, run, profile)).encode()


def _context(reader: Reader, spec: SpecRecord) -> IdeaContext | None:
    """The idea's words as they were when the version was saved (R-003)."""
    if spec.idea_id is None or spec.idea_snapshot is None:
        return None
    snapshot = reader.snapshot(spec.idea_id, spec.idea_snapshot)
    assert snapshot is not None, "a foreign key says that a version's snapshot is there"
    return context_of(snapshot)
