"""Starts and watches runs: the script of a spec in its own folder and process group, and the services it talks to.

Everything a runner says goes through the same API as a script's reports (`research_exchange.client`), so a run looks
the same to the Exchange whoever executes it.
"""

from research_exchange.runner.local import Ended, LocalRun
from research_exchange.runner.services import Service, ServiceError, exchange_service, training_service

__all__ = ["Ended", "LocalRun", "Service", "ServiceError", "exchange_service", "training_service"]
