"""Services found, started and stopped."""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from research_exchange.client import Exchange
from research_exchange.runner import ServiceError, exchange_service, training_service
from research_exchange.runner.services import Child
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.test_script import is_alive
from tests.servers import SpindleServer


def test_a_running_exchange_is_found_by_its_data_folder(served: ServedExchange) -> None:
    with exchange_service(served.data, environment={}) as service:
        assert (service.url, service.child) == (served.url, None)
    assert Exchange(served.url).answers(), "it was not ours to stop"


def test_an_exchange_is_started_when_there_is_none_and_stopped_again(tmp_path: Path) -> None:
    with exchange_service(tmp_path / "data", environment={}) as service:
        assert service.child is not None
        assert Exchange(service.url).answers()
        assert is_alive(service.child.pid)
    assert not is_alive(service.child.pid)
    assert not Exchange(service.url).answers()


def test_those_that_start_at_the_same_moment_do_not_take_each_others_port(tmp_path: Path) -> None:
    def answers(name: str) -> str:
        with exchange_service(tmp_path / name, environment={}) as service:
            together.wait(60)
            assert Exchange(service.url).answers()
            return service.url

    together = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(answers, ("a", "b", "c")))) == 3


def test_the_announcement_of_a_killed_exchange_leads_nowhere(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "pid": 1}))
    with exchange_service(data, environment={}) as service:
        assert service.child is not None


@pytest.mark.parametrize("named", [{"url": "http://127.0.0.1:9"}, {"environment": {"RX_URL": "http://127.0.0.1:9"}}])
def test_an_exchange_that_was_named_is_not_replaced_by_another(tmp_path: Path, named: dict[str, str]) -> None:
    with pytest.raises(ServiceError, match=r"No Exchange answers at http://127.0.0.1:9"):
        exchange_service(tmp_path, **named).__enter__()  # type: ignore[arg-type]


def test_a_named_training_service_is_used_with_its_key(spindle: SpindleServer, tmp_path: Path) -> None:
    with training_service(tmp_path, {**spindle.exports, "OTHER": "x"}) as service:
        assert service.url == spindle.url
        assert dict(service.variables) == spindle.exports
        assert spindle.key not in repr(service)


def test_a_training_service_that_was_named_must_answer(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"No training service answers at http://127.0.0.1:9 \(TINKER_BASE_URL\)"):
        training_service(tmp_path, {"TINKER_BASE_URL": "http://127.0.0.1:9"}).__enter__()


def test_a_service_that_does_not_start_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('the disk is full')"]
    child = Child(command, announces=["URL"], log=tmp_path / "log")
    with pytest.raises(ServiceError, match=r"did not start\..*\n.*the disk is full"):
        child.wait_until_ready(30)
    child.stop()


def test_a_service_that_is_not_ready_in_time_says_so(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", "import time; time.sleep(300)"], announces=["URL"], log=tmp_path / "log")
    with pytest.raises(ServiceError, match="did not start within 1 s"):
        child.wait_until_ready(1)
    child.stop()
    assert not is_alive(child.pid)


def test_what_a_service_says_after_it_is_ready_never_blocks_it(tmp_path: Path) -> None:
    talker = (
        "print('export A=\\'b c\\'', flush=True)\nfor _ in range(100_000): print('x' * 100)\nopen('done', 'w').close()"
    )
    child = Child(
        [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r})\n{talker}"],
        announces=["A"],
        log=tmp_path / "log",
    )
    child.wait_until_ready(30)
    assert child.exported["A"] == "b c"
    deadline = time.monotonic() + 30
    while not (tmp_path / "done").exists():
        assert time.monotonic() < deadline, "it was blocked by a full pipe"
        time.sleep(0.05)
    child.stop()
