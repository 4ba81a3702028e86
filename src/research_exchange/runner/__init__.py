"""Executes runs: a spec's command or a coding agent, under guard in a folder of its own, and the services it needs.

`launching` brings a spec to a run, `sitting` executes one session of it, `guard` lets nothing of it be left behind.
Everything a runner says goes through the same API as a script's reports (`research_exchange.client`), so a run looks
the same to the Exchange whoever executes it.
"""

from research_exchange.runner.agent import AGENT_COMMAND_VARIABLE, agent_errand
from research_exchange.runner.errors import CannotExecute, ServiceError
from research_exchange.runner.launching import Launch, Means, command_of, launch, repeat
from research_exchange.runner.limits import Limits
from research_exchange.runner.local import local_errand
from research_exchange.runner.parallel import all_at_once
from research_exchange.runner.services import Service, exchange_service, training_service
from research_exchange.runner.sitting import Ended, Errand, Sitting
from research_exchange.runner.wall import NoTimeLeft, seconds_left
from research_exchange.runner.work_folder import WorkFolder
from research_exchange.runner.worker import Worker

__all__ = [
    "AGENT_COMMAND_VARIABLE",
    "CannotExecute",
    "Ended",
    "Errand",
    "Launch",
    "Limits",
    "Means",
    "NoTimeLeft",
    "Service",
    "ServiceError",
    "Sitting",
    "WorkFolder",
    "Worker",
    "agent_errand",
    "all_at_once",
    "command_of",
    "exchange_service",
    "launch",
    "local_errand",
    "repeat",
    "seconds_left",
    "training_service",
]
