"""A new experiment, in a terminal."""

from rich.console import Group, RenderableType

from research_exchange.terminal.words import Json, commands, literal


def created_report(created: Json) -> RenderableType:
    """Where it is, and what to do with it."""
    folder = created["folder"]
    return Group(
        literal(f"{folder} has {', '.join(created['files'][:-1])} and {created['files'][-1]}."),
        "",
        commands(
            (f"rx lint {folder}/spec.json", "what a reviewer would ask"),
            (f"rx run {folder}/spec.json", "run it as it is, in minutes"),
        ),
        "",
        literal(f"{folder}/README.md says what to change to ask your own question."),
    )
