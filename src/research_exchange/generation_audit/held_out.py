"""What ties the evaluation set of an audit to what was scored: all of its items, and their prompts (R-191, R-195).

Overlap is only worth what the prompts are that it is looked for in. They are the runner's word where the audit's own
file alone tells them; a manifest of the evaluator, or the predictions, may tell them as well, and then both agree.
"""

from collections.abc import Iterator

from research_exchange.documents.evaluation import Evaluator
from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import as_mapping, is_whole, show, show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Flag
from research_exchange.documents.generation_audit import AuditReport
from research_exchange.documents.items import read_manifest
from research_exchange.documents.json import DocumentError, parse_lines
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.generation_audit.files import AuditFiles
from research_exchange.generation_audit.prompts import normalized

__all__ = ["check_held_out"]


def check_held_out(
    spec: Spec, state: RunState, report: AuditReport, files: AuditFiles, findings: Findings
) -> tuple[Flag, ...]:
    """Holds the evaluation set of an audit against what was scored; the flags say what nothing ties to it."""
    rows = files.evaluation(report.evaluation_file).rows
    if rows is None:
        return ()
    prompts = {item.item_id: item.prompt for item in rows}
    path, action = "generation_audit.evaluation_file", "Freeze every item that arms are evaluated on."
    planned = spec.section("eval").get("n_examples")
    if is_whole(planned) and len(prompts) < planned:
        findings.miss("R-191", path, f"the {planned} items of eval.n_examples", f"{len(prompts)}", action)
    evaluators = state.evaluation.evaluators.values()
    scored = dict.fromkeys(item for evaluator in evaluators for item in _items(evaluator, files.shelf))
    missing = [item for item in scored if item not in prompts]
    if missing:
        found = f"all but {len(missing)}: {show_names(missing)}"
        findings.contradict("R-191", path, f"the {len(scored)} items that an evaluator scores", found, action)
    told: set[tuple[str, str]] = set()
    for item, prompt, source in _told(state, files.shelf):
        if item in prompts and (item, prompt) not in told:
            told.add((item, prompt))
            if normalized(prompts[item]) not in normalized(prompt):
                expected = f"the prompt of {show(item)} as in {show(source)}, {show(prompt)}"
                action = "Freeze the prompts that the model is asked, and audit against those."
                findings.contradict("R-191", path, expected, show(prompts[item]), action)
    tied = {item for item, _ in told}
    untied = sum(item in prompts and item not in tied for item in scored)
    if not untied:
        return ()
    text = f"The prompts of {untied} of {len(scored)} scored items stand in the audit's own evaluation set alone"
    return (Flag("R-195", None, f"{text}: that no task repeats one of them rests on the runner's word."),)


def _told(state: RunState, shelf: EvidenceShelf) -> Iterator[tuple[str, str, str]]:
    """Item, its prompt, and the file that tells it: manifests of the evaluators, and predictions behind scores."""
    evaluation = state.evaluation
    manifests = [evaluator.manifest.name for evaluator in evaluation.evaluators.values() if evaluator.manifest]
    names = dict.fromkeys([*manifests, *(score.predictions for score in evaluation.scores)])
    for name in names:
        file = shelf.find(name or "")
        if file is None:
            continue
        try:
            content = shelf.read(file.name)
            for row in map(as_mapping, parse_lines(content) if b'"prompt"' in content else ()):
                item, prompt = row.get("item_id"), row.get("prompt")
                if isinstance(item, str) and isinstance(prompt, str):
                    yield item, prompt, file.name
        except (EvidenceLost, DocumentError):
            continue


def _items(evaluator: Evaluator, shelf: EvidenceShelf) -> tuple[str, ...]:
    """The ids that an evaluator scores; none where its manifest is not retained, which is its own gate's concern."""
    manifest = evaluator.manifest
    file = None if manifest is None else shelf.find(manifest.name)
    if manifest is None or file is None or file.sha256 != manifest.sha256:
        return evaluator.items or ()
    try:
        return read_manifest(shelf.read(file.name)) or ()
    except EvidenceLost:
        return ()
