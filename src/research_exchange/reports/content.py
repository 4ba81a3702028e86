"""What a report says: every section of it, from what a bundle holds and from the run judged anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from research_exchange.bundles import Contents, bundle_chunks, recheck
from research_exchange.bundles.record import RunRecord
from research_exchange.documents.fields import as_mapping
from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.documents.run_document import RunDocument
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.judgment import Judgment, judge
from research_exchange.presentation.banner import Banner, recorded_banner
from research_exchange.reports.blocks import Picture, Section
from research_exchange.reports.course import evidence_section, time_section, verify_section
from research_exchange.reports.curves import read_curves
from research_exchange.reports.findings import (
    arms_section,
    decision_sections,
    deviations_section,
    gates_section,
    remarks_section,
    scores_section,
)
from research_exchange.reports.plots import plot_sections
from research_exchange.updates import fold

__all__ = ["Report", "report_of"]


@dataclass(frozen=True)
class Report:
    """Everything that is told of a run, in the order of reading."""

    record: RunRecord
    spec: Spec
    state: RunState
    judgment: Judgment
    """Of this moment."""
    banner: Banner
    sections: Sequence[Section]

    @property
    def claims(self) -> list[tuple[str, str]]:
        """What was to be found out, in the words of the spec."""
        named = (("Hypothesis", "hypothesis"), ("Criterion", "success_criterion"))
        return [(title, value) for title, name in named if isinstance(value := self.spec.value.get(name), str)]

    @property
    def pictures(self) -> list[Picture]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Picture)]


def report_of(record: RunRecord, document: RunDocument, contents: Contents) -> Report:
    """The report on the run in a bundle.

    Args:
        record: What is on record of the run.
        document: The same run, as it is judged.
        contents: What reads each member of the bundle.
    """
    spec = document.spec
    state = fold(spec, document.updates)
    judgment = judge(spec, document.updates, document.evidence, ended=document.ended, state=state)
    checks = recheck(record, document, contents)
    return Report(
        record=record,
        spec=spec,
        state=state,
        judgment=judgment,
        banner=_banner(record, state, judgment, contents),
        sections=[
            *decision_sections(judgment),
            scores_section(state, judgment),
            *plot_sections(spec, state, read_curves(document)),
            gates_section(judgment),
            deviations_section(state, judgment),
            arms_section(spec, state),
            time_section(record, spec, judgment),
            evidence_section(record, judgment),
            *remarks_section(judgment),
            verify_section(record, _hash_of(record, contents), checks),
        ],
    )


def _banner(record: RunRecord, state: RunState, judgment: Judgment, contents: Contents) -> Banner:
    recorded = _recorded(record, contents)
    if recorded.get("recorded_verdict") is None:
        updates = f"{state.last_update} update{'' if state.last_update == 1 else 's'}"
        headline = "Running" if state.last_update else "Not started"
        return Banner("running", "No verdict yet", headline, f"It had posted {updates} when this was written.", None)
    is_borne_out = recorded["recorded_verdict"] == judgment.recorded_verdict
    found = recorded_banner(recorded, contradicted=not is_borne_out)
    if is_borne_out:
        return found
    now = judgment.recorded_verdict or "no verdict"
    return replace(found, explanation=f"{found.explanation} Judged again for this report, the verdict is {now}.")


def _recorded(record: RunRecord, contents: Contents) -> Mapping[str, JsonValue]:
    """The judgment that stands on record; empty where there is none that can be read."""
    if not record.outcomes or record.outcomes[-1].member not in contents:
        return {}
    try:
        return as_mapping(parse(contents[record.outcomes[-1].member]()))
    except DocumentError:
        return {}


def _hash_of(record: RunRecord, contents: Contents) -> str:
    """Of the bundle as one file, which an unpacked one has as well."""
    hashed = sha256()
    for chunk in bundle_chunks(record, contents):
        hashed.update(chunk)
    return hashed.hexdigest()
