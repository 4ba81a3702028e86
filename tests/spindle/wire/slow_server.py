"""A server whose steps and saves take as long as the command line says: `slow_server.py DATA SECONDS GRACE`."""

import os
import sys
import time
from pathlib import Path

from spindle.backends.contract import OptimizerStep
from spindle.control import Service
from spindle.wire import create_app
from spindle.wire.server import bind, serve
from tests.spindle.engine.recording import RecordingBackend


class SlowBackend(RecordingBackend):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def optim_step(self, model_id: str, step: OptimizerStep) -> dict[str, float]:
        print("computing", flush=True)
        time.sleep(self._seconds)
        return super().optim_step(model_id, step)

    def save_state(self, model_id: str, directory: Path) -> None:
        print("computing", flush=True)
        time.sleep(self._seconds)
        super().save_state(model_id, directory)


def main(data: str, seconds: str, grace: str) -> None:
    service = Service.build(SlowBackend(float(seconds)), Path(data))
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    serve(create_app(service, {"ann": "tml-key-of-ann"}, float(grace)), listener, lambda: print(port, flush=True))
    if service.engine.running:
        os._exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
