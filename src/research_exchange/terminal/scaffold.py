"""A new experiment, in a terminal."""

import shlex

from rich.console import Group, RenderableType

from research_exchange.terminal.words import Json, commands, literal


def created_report(created: Json, rx: str) -> RenderableType:
    """Where it is, and what to do with it; `rx` is the words that start this command from where the reader stands."""
    folder = created["folder"]
    spec = shlex.quote(f"{folder}/spec.json")
    return Group(
        literal(f"{folder} has {', '.join(created['files'][:-1])} and {created['files'][-1]}."),
        "",
        commands(
            (f"{rx} lint {spec}", "what a reviewer would ask"),
            (f"{rx} run {spec}", "run it as it is, in minutes"),
        ),
        "",
        literal(f"{folder}/README.md says what to change to ask your own question."),
    )
