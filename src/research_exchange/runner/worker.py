"""A worker: takes the runs that wait on an Exchange and executes them here, several at once."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from research_exchange.client import Exchange, ExchangeError, Run
from research_exchange.documents.spec import Spec
from research_exchange.runner.errors import CannotExecute
from research_exchange.runner.launching import Launch, Means
from research_exchange.runner.parallel import crew
from research_exchange.runner.services import Service
from research_exchange.runner.wall import NoTimeLeft
from research_exchange.runner.work_folder import WorkFolder

__all__ = ["Worker"]

POLL_SECONDS = 2.0
"""Between two looks at a queue that has nothing due."""
FOLDER_SECONDS = 10.0
"""How long the folder of a run may take to be copied by whoever has just created the run."""


class Worker:
    """Executes due runs by the means of this machine; an eligible run that capacity stopped comes back to it later."""

    def __init__(
        self, exchange: Exchange, data: Path, training: Service, means: Means, say: Callable[[str], None]
    ) -> None:
        """`say` is told when a run begins and how it ended."""
        self._exchange = exchange
        self._data = data
        self._training = training
        self._means = means
        self._say = say
        self.stop = threading.Event()

    def work(self, *, slots: int, once: bool) -> None:
        """Until `stop` is set; or, once, until nothing is due and nothing is being executed."""
        with crew(slots, self.stop) as working:
            while not self.stop.is_set():
                run = self._claim() if working.has_room else None
                if run is not None:
                    working.start(partial(self._execute, run))
                elif once and working.is_idle:
                    return
                else:
                    self.stop.wait(POLL_SECONDS)

    def _claim(self) -> Run | None:
        """An Exchange that is away has nothing due."""
        try:
            return self._exchange.claim()
        except ExchangeError as trouble:
            self._say(str(trouble))
            return None

    def _execute(self, run: Run) -> None:
        work = WorkFolder.of(self._data, run.id)
        waited = 0.0
        while self._means.agent_command is None and not work.is_here and waited < FOLDER_SECONDS:
            self.stop.wait(0.2)
            waited += 0.2
        self._say(f"{run.id} begins: {run.page}")
        try:
            launch = Launch(run, Spec.parse(run.spec_bytes()), work)
            reason = launch.sitting(self._training, self._means, self.stop).execute().reason
        except (CannotExecute, NoTimeLeft) as trouble:
            reason = str(trouble)
            run.end_session(run.begin_session(runner="local"), exit_code=None, reason=reason)
        except ExchangeError as trouble:
            reason = str(trouble)
        self._say(f"{run.id}: {reason}")
