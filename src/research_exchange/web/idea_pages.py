"""The pages of ideas and of the spec versions made from them, each with its JSON twin (R-220, R-223)."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.differences import Change
from research_exchange.documents.json import JsonValue
from research_exchange.documents.plain import plain
from research_exchange.documents.spec import Spec
from research_exchange.feasibility import check_feasibility
from research_exchange.lint import Finding, Level
from research_exchange.power import PowerCard
from research_exchange.server import ApiError, Exchange
from research_exchange.server.guards import overview_reader, page_reader
from research_exchange.server.listing import ListedRun, list_runs
from research_exchange.server.routes.answers import listing
from research_exchange.server.routes.ideas import idea_json
from research_exchange.server.routes.specs import spec_json
from research_exchange.server.views import run_summary_json
from research_exchange.store import SnapshotRecord, SpecRecord
from research_exchange.web.rendering import Span, Visiting

PER_PAGE = 50
RUNS_OF_A_VERSION = 100

pages = APIRouter(include_in_schema=False, dependencies=[Depends(page_reader)])

Offset = Annotated[int, Query(ge=0, le=2**31)]
SnapshotNumber = Annotated[int | None, Query(ge=1, le=2**31)]


@dataclass(frozen=True)
class VersionPage:
    """All that a page says of one spec version."""

    record: SpecRecord
    spec: Spec
    snapshot: SnapshotRecord | None
    """The idea as it stood when the version was saved (R-003)."""
    findings: tuple[Finding, ...]
    power: PowerCard
    feasibility: dict[str, JsonValue] | None
    """None where the spec asks for none (R-022)."""
    before: SpecRecord | None
    """The version that it is compared with."""
    changes: tuple[Change, ...]
    siblings: tuple[SpecRecord, ...]
    """The newest other versions of the same idea."""
    runs: tuple[ListedRun, ...]
    total_runs: int

    def findings_of(self, level: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.level is Level(level)]

    def to_json(self) -> dict[str, JsonValue]:
        return {
            **spec_json(self.record),
            "findings": [plain(finding) for finding in self.findings],
            "power": self.power.to_json(),
            "feasibility_check": self.feasibility,
            "compared_with": self.before.id if self.before else None,
            "changes": [change.to_json() for change in self.changes],
            "runs": [run_summary_json(listed.run) for listed in self.runs],
            "total_runs": self.total_runs,
        }


@pages.get("/ideas")
def ideas(visit: Visiting, offset: Offset = 0) -> Response:
    found, total = visit.exchange.ideas.page(PER_PAGE, offset)
    return visit.page("ideas.html", ideas=found, span=Span(offset, PER_PAGE, total))


@pages.get("/ideas.json")
def ideas_twin(visit: Visiting, offset: Offset = 0) -> Response:
    found, total = visit.exchange.ideas.page(PER_PAGE, offset)
    return JSONResponse(listing("ideas", [idea_json(idea) for idea in found], total, offset))


@pages.get("/ideas/{idea_id}")
def idea(idea_id: str, visit: Visiting, said: SnapshotNumber = None, versions: Offset = 0) -> Response:
    """What an idea says, its versions from an offset on, and what it said, on the page that has the snapshot `said`."""
    try:
        found = visit.exchange.ideas.idea_page(idea_id, PER_PAGE, said, versions)
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    return visit.page(
        "idea.html",
        idea=found.idea,
        snapshots=found.snapshots,
        said=Span(found.snapshots_from, PER_PAGE, found.idea.current.number),
        versions=found.versions,
        made=Span(versions, PER_PAGE, found.versions_total),
    )


@pages.get("/specs/{spec_id}.json", dependencies=[Depends(overview_reader)])
def version_twin(spec_id: str, visit: Visiting, against: str | None = None) -> Response:
    return JSONResponse(version_page(visit.exchange, spec_id, against).to_json())


@pages.get("/specs/{spec_id}", dependencies=[Depends(overview_reader)])
def version(spec_id: str, visit: Visiting, against: str | None = None) -> Response:
    try:
        page = version_page(visit.exchange, spec_id, against)
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    return visit.page("version.html", page=page)


def version_page(exchange: Exchange, spec_id: str, against: str | None) -> VersionPage:
    """A version as its page shows it, compared with `against`, else with the version that it was made from.

    Raises:
        ApiError: 404 where one of them is not known.
    """
    record = exchange.versions.spec(spec_id)
    compared = exchange.versions.difference(spec_id, against) if against or record.parent else None
    with exchange.store.reading() as reader:
        snapshot = None
        if record.idea_id is not None and record.idea_snapshot is not None:
            snapshot = reader.snapshot(record.idea_id, record.idea_snapshot)
        siblings = reader.specs(PER_PAGE, 0, record.idea_id) if record.idea_id else []
        runs = list_runs(reader, RUNS_OF_A_VERSION, 0, spec_id)
    spec = Spec.parse(record.raw)
    return VersionPage(
        record=record,
        spec=spec,
        snapshot=snapshot,
        findings=exchange.versions.lint(spec_id),
        power=exchange.versions.power(spec_id),
        feasibility=check_feasibility(spec).to_json() if spec.value.get("feasibility_required") is True else None,
        before=compared.before if compared else None,
        changes=compared.changes if compared else (),
        siblings=tuple(each for each in reversed(siblings) if each.id != spec_id),
        runs=runs.runs,
        total_runs=runs.total,
    )
