"""Bringing a spec to the point where it can be executed: a run on the Exchange, and a work folder on this machine."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from research_exchange.client import Exchange, Run
from research_exchange.documents.spec import Spec
from research_exchange.outcome import ON_SCIENCE_ALONE
from research_exchange.runner.agent import agent_errand
from research_exchange.runner.errors import CannotExecute
from research_exchange.runner.limits import NO_LIMITS, Limits
from research_exchange.runner.local import local_errand
from research_exchange.runner.services import Service
from research_exchange.runner.sitting import Sitting
from research_exchange.runner.wall import seconds_left
from research_exchange.runner.work_folder import WorkFolder

__all__ = ["Launch", "Means", "command_of", "launch", "newest_settled", "repeat"]

_LOOKED_AT = 20
"""How many earlier runs of a version are looked at for one to repeat."""


@dataclass(frozen=True)
class Means:
    """How this machine executes runs."""

    agent_command: str | None = None
    """Of the coding agent that works from the brief; None where the spec's own command is executed."""
    profile: str = "spindle"
    """The service profile that a brief is written for."""
    passed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further variables of a command's environment."""
    limits: Limits = NO_LIMITS


@dataclass(frozen=True)
class Launch:
    """A run that can be executed here."""

    run: Run
    spec: Spec
    work: WorkFolder
    redo_of: str | None = None
    """The earlier run that it repeats."""

    def sitting(self, training: Service, means: Means, stop: threading.Event) -> Sitting:
        """The next session of the run.

        Raises:
            CannotExecute: the spec has no command, or the command's folder is not on this machine.
            NoTimeLeft: earlier sessions used up its wall time.
        """
        if means.agent_command is not None:
            errand = agent_errand(self.run, means.agent_command, means.profile)
        elif not self.work.is_here:
            raise CannotExecute(
                f"The folder that {self.run.id} was created from is not on this machine ({self.work.source}); "
                "execute it where it was created, or run the spec anew with `rx run SPEC`."
            )
        else:
            errand = local_errand(self.run, command_of(self.spec), self.work)
        return Sitting(
            run=self.run,
            errand=errand,
            work=self.work,
            training=training,
            wall_seconds=seconds_left(self.spec, self.run.record()["sessions"]),
            passed=means.passed,
            limits=means.limits,
            stop=stop,
        )


def command_of(spec: Spec) -> str:
    """The line for the shell that executes a spec.

    Raises:
        CannotExecute: it names none.
    """
    command = spec.value.get("command")
    if not isinstance(command, str) or not command.strip():
        raise CannotExecute('The spec has no command to run; add "command", for example "python train.py".')
    return command


def launch(
    exchange: Exchange,
    spec: Spec,
    spec_folder: Path,
    data: Path,
    *,
    legacy: bool = False,
    redo: bool = False,
    queue: bool = False,
) -> Launch:
    """Register a spec, create a run of it, and keep its folder for every session.

    Args:
        exchange: Where it is registered.
        spec: The version.
        spec_folder: What its command finds where it runs.
        data: The Exchange's data folder.
        legacy: Admit a spec that lint finds errors in.
        redo: Repeat the newest run of the version that was settled, if there is one (R-006).
        queue: Leave the run to a worker.

    Raises:
        UnfitFolder: no copy can be made of the folder, or it holds more than a script and its small inputs; no run is
            created then.
        SpecRefused: lint finds errors in the spec; no run is created either.
    """
    with WorkFolder.prepared(data) as prepared:
        prepared.keep(spec_folder)
        spec_id = exchange.register(spec.raw, legacy=legacy)
        redo_of = newest_settled(exchange, spec_id) if redo else None
        run = exchange.create_run(spec_id, redo_of=redo_of, queue=queue)
        work = prepared.become(WorkFolder.of(data, run.id))
    return Launch(run, spec, work, redo_of)


def repeat(exchange: Exchange, run_id: str, data: Path) -> Launch:
    """Create a run of the same version and the same files as an earlier one (R-006).

    Raises:
        CannotExecute: the folder of the earlier run is not on this machine; no run is created then.
        UnfitFolder: no copy can be made of it; no run is created either.
    """
    earlier = exchange.run(run_id)
    spec = Spec.parse(earlier.spec_bytes())
    kept = WorkFolder.of(data, run_id)
    if not kept.is_here:
        raise CannotExecute(f"The folder of {run_id} is not on this machine; use `rx run SPEC --redo auto` instead.")
    with WorkFolder.prepared(data) as prepared:
        prepared.keep_from(kept)
        run = exchange.create_run(earlier.record()["spec_id"], redo_of=run_id)
        work = prepared.become(WorkFolder.of(data, run.id))
    return Launch(run, spec, work, redo_of=run_id)


def newest_settled(exchange: Exchange, spec_id: str) -> str | None:
    """The newest run of a version whose verdict on record rests on the science alone."""
    for run in exchange.runs(limit=_LOOKED_AT, spec_id=spec_id):
        recorded = exchange.run(run["id"]).record()["recorded"]
        if run["spec_id"] == spec_id and recorded is not None and recorded["basis"] in ON_SCIENCE_ALONE:
            return str(run["id"])
    return None
