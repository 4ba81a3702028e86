"""`rx check`, `rx decide` and `rx judge`: a run as the rules see it, from files or from an Exchange."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research_exchange.cli.console import NOT_CHECKED, NOT_WELL, WELL, AsJson, UsageProblem, display
from research_exchange.cli.exchange import RUN_ID, Address, Data, connected_exchange, exit_code

if TYPE_CHECKING:
    from research_exchange.cli.intake import Refusal
    from research_exchange.judgment import Judgment

_FORMS = "a run document (JSON), or a folder with spec.json, updates/ and evidence/"


def check(
    run: Annotated[Path, typer.Argument(metavar="RUN.json", help=f"{_FORMS[0].upper()}{_FORMS[1:]}.")],
    as_json: AsJson = False,
) -> None:
    """Check a run before it is posted: which gates pass, which files are refused, and what to mend.

    Ends with 1 when a gate failed or a file is refused, and with 3 when something is still missing.
    """
    from research_exchange.terminal.findings import check_report

    read = _read(run)
    status = read.status
    display({"status": status, **read.to_json()}, check_report, as_json)
    raise typer.Exit({"passed": WELL, "failed": NOT_WELL}.get(status, NOT_CHECKED))


def judge(
    run: Annotated[str, typer.Argument(metavar="RUN", help=f"The id of a run on an Exchange; {_FORMS}.")],
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Judge a run: recompute what its evidence bears out.

    A run on an Exchange is judged there, from its evidence as it is now, and that is put on record.

    A run in files is judged here by the same rules, and nothing is recorded.
    """
    if RUN_ID.fullmatch(run):
        judgment = _judge_on_exchange(run, data, exchange, as_json)
    elif Path(run).exists():
        judgment = _judge_files(Path(run), as_json)
    else:
        raise UsageProblem(f"{run} is neither a run's id (run_ and 10 hexadecimal digits) nor a file or folder here.")
    raise typer.Exit(exit_code(judgment))


def decide(
    run: Annotated[Path, typer.Argument(metavar="RUN.json", help=f"{_FORMS[0].upper()}{_FORMS[1:]}.")],
    as_json: AsJson = False,
) -> None:
    """Decide a run by its spec's own rule, from its observations alone (R-234); gates do not matter here.

    Ends with 1 when the observations contradict the rule or each other, and with 3 when there is nothing to decide on.
    """
    from research_exchange.terminal.record import decision_report

    read = _read(run)
    decision = read.judgment.to_json()["decision"]
    display({"title": read.title, "decision": decision}, decision_report, as_json)
    status = decision["status"] if isinstance(decision, Mapping) else None
    raise typer.Exit({"passed": WELL, "failed": NOT_WELL}.get(str(status), NOT_CHECKED))


def _judge_on_exchange(run_id: str, data: Path | None, url: str | None, as_json: bool) -> Mapping[str, Any]:
    from research_exchange.terminal import judgment_report

    with connected_exchange(data, url) as connected:
        judgment = connected.run(run_id).record_judgment()
    display(judgment, judgment_report, as_json)
    return judgment


def _judge_files(path: Path, as_json: bool) -> Mapping[str, Any]:
    from research_exchange.terminal.findings import local_judgment_report

    read = _read(path)
    if as_json:
        for refusal in read.refused:
            for problem in refusal.admission.problems:
                typer.echo(f"rx: {refusal.name} is left out: {problem}", err=True)
        display(read.judgment.to_json(), local_judgment_report, as_json)
    else:
        display(read.to_json(), local_judgment_report, as_json)
    return read.judgment.to_json()


@dataclass(frozen=True)
class _Read:
    """A run read from files, and judged."""

    title: str
    judgment: "Judgment"
    files: int
    refused: "tuple[Refusal, ...]"

    @property
    def status(self) -> str:
        """`failed` where something has to be mended, `unverified` where something is missing, else `passed`."""
        states = {gate.status.value for gate in self.judgment.gates}
        malformed = any(flag.rule == "R-06A" for flag in self.judgment.flags)
        if "failed" in states or self.refused or malformed:
            return "failed"
        return "unverified" if states & {"unverified", "unknown"} else "passed"

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "files": self.files,
            "refused": [refusal.to_json() for refusal in self.refused],
            "judgment": self.judgment.to_json(),
        }


def _read(path: Path) -> _Read:
    from research_exchange.cli.intake import take_in
    from research_exchange.cli.run_folder import read_run
    from research_exchange.judgment import judge as judge_documents

    document = read_run(path)
    intake = take_in(document)
    judgment = judge_documents(document.spec, document.updates, intake.retained, ended=document.ended)
    return _Read(document.spec.title, judgment, len(intake.retained), intake.refused)
