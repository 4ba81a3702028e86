"""The agent runner's errand: a coding agent in an empty folder, that reads the brief and gets nothing else."""

from pathlib import Path

from research_exchange.client import Run
from research_exchange.runner.result import find_result
from research_exchange.runner.sitting import Errand
from research_exchange.runner.work_folder import SessionFolder

__all__ = ["AGENT_COMMAND_VARIABLE", "agent_errand"]

AGENT_COMMAND_VARIABLE = "RX_AGENT_COMMAND"
_LAST_BYTES = 2**20
"""Of what an agent says: where a RESULT is looked for."""


def agent_errand(run: Run, command: str, profile: str) -> Errand:
    """Hands the brief of `run`, written for a service profile, to `command`.

    An agent that posted no final update may have printed one instead: the last RESULT of its output is posted for it.
    """

    def prepare(folder: SessionFolder) -> None:
        folder.brief.write_text(run.brief(profile))

    def reads(folder: SessionFolder) -> Path:
        return folder.brief

    def conclude(folder: SessionFolder) -> None:
        if run.record()["state"]["final_update"] is None:
            result = find_result(_last_words(folder.log))
            if result is not None:
                run.update(**result)

    return Errand(
        runner="agent",
        who="agent",
        command=command,
        prepare=prepare,
        reads=reads,
        conclude=conclude,
        ends_with_run=True,
        profile=profile,
    )


def _last_words(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_BYTES))
        return file.read().decode(errors="replace")
