"""The local runner's errand: the spec's own command, in a fresh copy of the spec's folder."""

import shutil

from research_exchange.client import ExchangeRefused, Run
from research_exchange.runner.remarks import remark
from research_exchange.runner.sitting import Errand
from research_exchange.runner.work_folder import SessionFolder, WorkFolder

__all__ = ["local_errand"]


def local_errand(run: Run, command: str, work: WorkFolder) -> Errand:
    """Executes `command` in a copy of the run's source; how that differs from its git revision becomes evidence."""

    def prepare(folder: SessionFolder) -> None:
        shutil.copytree(work.source, folder.folder, dirs_exist_ok=True)
        if patch := work.patch:
            try:
                run.evidence("code.patch", "code_patch", patch)
            except ExchangeRefused as refusal:
                remark(run, f"The runner's file code.patch was refused as evidence: {refusal}")

    return Errand(runner="local", who="script", command=command, prepare=prepare, revision=work.revision)
