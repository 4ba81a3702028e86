"""What the rules say of a spec or a run before anybody trains on it: lint, power card, check."""

from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from research_exchange.documents.fields import is_sha256, show
from research_exchange.documents.json import JsonValue
from research_exchange.presentation.words import printable
from research_exchange.terminal.live import clock
from research_exchange.terminal.record import gates_table, judgment_report, what_is_wrong
from research_exchange.terminal.words import Json, literal, problems, remarks, section, table, title_line

_LEVELS = {
    "error": "Errors: a new version is not saved with these",
    "warning": "Warnings: a run will be worth less, or be stopped by a gate",
    "question": "Questions: only prose says it, so a reviewer decides",
}

_STANDINGS = {
    "passed": ("Checked: all that applies passes.", "green"),
    "failed": ("Checked: something is wrong and has to be mended.", "bold red"),
    "unverified": ("Not all could be checked: something is missing, or it is unknown whether it applies.", "yellow"),
}


def lint_report(report: Json) -> RenderableType:
    """What lint finds in a spec, the gravest first."""
    findings: Sequence[Json] = report["findings"]
    parts: list[RenderableType] = [title_line(report["title"]), literal(count_findings(report["counts"]))]
    for level, heading in _LEVELS.items():
        entries = [(each["rule"], each["path"], each["text"]) for each in findings if each["level"] == level]
        parts += section(heading, *([remarks(entries)] if entries else []))
    return Group(*parts)


def count_findings(counts: Mapping[str, int]) -> str:
    """`2 errors, 1 warning and no questions.`"""
    words = [f"{count or 'no'} {level}{'' if count == 1 else 's'}" for level, count in counts.items()]
    sentence = f"{', '.join(words[:-1])} and {words[-1]}."
    return sentence[0].upper() + sentence[1:]


def check_report(report: Json) -> RenderableType:
    """What the Exchange would make of a run as it stands: files, gates, and what to mend."""
    judgment: Json = report["judgment"]
    parts: list[RenderableType] = [title_line(report["title"]), literal(_extent(report))]
    parts += [literal(*_STANDINGS[report["status"]]), "", gates_table(judgment["gates"])]
    parts += what_is_wrong(judgment)
    parts += refused_files(report["refused"])
    parts += section("Feasibility", *_feasibility(judgment["feasibility"]))
    parts += section("Worth a look", *_flags(judgment["flags"]))
    return Group(*parts)


def local_judgment_report(report: Json) -> RenderableType:
    """The judgment of a run that was read from files."""
    judgment: Json = report["judgment"]
    return Group(
        title_line(report["title"]),
        judgment_report(judgment),
        *refused_files(report["refused"]),
        *section("Feasibility", *_feasibility(judgment["feasibility"])),
        *section("Capacity", *_capacity(judgment["capacity"])),
        *section("Worth a look", *_flags(judgment["flags"])),
        *section("What was read, and whose word it is", *_computed(judgment)),
    )


def refused_files(refused: Sequence[Json]) -> list[RenderableType]:
    """The files that an Exchange does not take, each with why."""
    entries = [_of_file(file["name"], problem) for file in refused for problem in file["problems"]]
    names = ", ".join(file["name"] or "a file without a name" for file in refused)
    return section("Refused as evidence, and left out", literal(f"  {names}"), problems(entries)) if refused else []


def _of_file(name: str, problem: Json) -> Json:
    """A problem that says which file it is about."""
    path = problem["path"]
    return problem if path == name or path.startswith("evidence.") else {**problem, "path": f"{show(name)}, {path}"}


def _extent(report: Json) -> str:
    judgment: Json = report["judgment"]
    updates, files = _count(judgment["through_update"], "update"), _count(report["files"], "file")
    return f"{updates} and {files} of evidence; the run is reported as {judgment['status']}."


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _flags(flags: Sequence[Json]) -> list[RenderableType]:
    entries = [(flag["rule"], "", _from_update(flag) + flag["text"]) for flag in flags]
    return [remarks(entries)] if entries else []


def _feasibility(check: Json) -> list[RenderableType]:
    """The projection from measured times (R-178); nothing where none was reported."""
    if not check["phases"]:
        return []
    gpu = f"at least {check['known_gpu_hours']:.3g}" if check["gpu_hours"] is None else f"{check['gpu_hours']:.3g}"
    wall = "unknown" if check["wall_seconds"] is None else clock(check["wall_seconds"])
    phases = ", ".join(f"{name} {clock(seconds)}" for name, seconds in check["phases"].items())
    return [
        literal(f"{check['status']}: {wall} minutes and {gpu} GPU-hours projected ({phases})"),
        *(literal(f"- {problem}") for problem in check["problems"]),
    ]


def _capacity(capacity: Json) -> list[RenderableType]:
    """Whether the run may start again, where capacity stopped it (R-202)."""
    return [] if capacity["requeue"] == "not_asked" else [literal(capacity["reason"])]


def _from_update(flag: Json) -> str:
    return "" if flag["update"] is None else f"Update {flag['update']}: "


def _computed(judgment: Json) -> list[Table]:
    """Each number that the run reports of its arms, and each value that a gate read or computed."""
    reported = {number["path"].removeprefix("metrics.arms."): number for number in judgment["numbers"]}
    rows: list[tuple[Text, str, str]] = [
        (literal(f"  {name}"), _short(number["value"]), number["provenance"]) for name, number in reported.items()
    ]
    if rows:
        rows.insert(0, (literal("reported of the arms", "bold"), "", ""))
    for gate in judgment["gates"]:
        if gate["computed"]:
            rows.append((literal(gate["gate"], "bold"), "", ""))
        for name, value in gate["computed"].items():
            rows.append((literal(f"  {name}"), _short(value), gate["provenance"].get(name, "")))
    return [table(("value", "is", "from"), rows, whole=("from",))] if rows else []


def _short(value: JsonValue) -> str:
    """Six digits tell numbers apart for a reader; --json has all of them."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value[:12]}…" if is_sha256(value) else show(value)


def schemas_table(schemas: Mapping[str, str]) -> RenderableType:
    """The published schemas."""
    return table(("schema", "describes"), list(schemas.items()))


def print_brief(text: str) -> None:
    """Laid out for a reader in a terminal, and the very text elsewhere."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(Markdown(printable(text)))
    else:
        print(text, end="")
