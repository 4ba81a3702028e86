"""What is asked of a request before anything of it is read: its Host, its declared size, and how often it comes."""

import socket
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.client import Exchange
from research_exchange.server import BadSetting, Door, limits
from research_exchange.server.door import LOOPBACK_NAMES, PER_CALLER, name_of
from research_exchange.server.ratelimit import MOST_CALLERS, Buckets, Rate
from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller
from tests.research_exchange.server.serving import NO_TLS, in_thread


@pytest.mark.parametrize(
    ("host", "environment", "open_reads", "hosts"),
    [
        ("127.0.0.1", {}, True, LOOPBACK_NAMES),
        ("localhost", {}, True, LOOPBACK_NAMES),
        ("::1", {}, True, LOOPBACK_NAMES),
        ("127.0.0.1", {"RX_HOSTS": "Exchange.local, "}, True, LOOPBACK_NAMES | {"exchange.local"}),
        ("127.0.0.1", {"RX_REQUIRE_LOGIN": "1"}, False, LOOPBACK_NAMES),
        ("127.0.0.1", {"RX_REQUIRE_LOGIN": "0"}, True, LOOPBACK_NAMES),
        ("0.0.0.0", {}, False, None),
        ("::", {}, False, None),
        ("127.0.0.2", {}, True, LOOPBACK_NAMES | {"127.0.0.2"}),
        ("192.168.1.5", {"RX_HOSTS": "lab"}, False, LOOPBACK_NAMES | {"192.168.1.5", "lab"}),
        ("0.0.0.0", {"RX_HOSTS": "lab"}, False, LOOPBACK_NAMES | {"0.0.0.0", "lab"}),
        ("exchange.example", {}, False, None),
    ],
)
def test_reading_is_open_on_loopback_alone(
    host: str, environment: dict[str, str], open_reads: bool, hosts: set[str] | None
) -> None:
    door = Door.for_host(host, environment)
    assert (door.open_reads, door.hosts) == (open_reads, hosts)
    assert (door.per_caller == PER_CALLER) is not open_reads
    assert not Door.for_host(host, environment, require_login=True).open_reads


def test_a_rate_that_is_none_is_refused_in_a_sentence() -> None:
    assert Door.for_host("127.0.0.1", {"RX_RATE": "5"}).per_caller == Rate(5, 50)
    for given_rate in ("0", "-1", "many", "1e3", "²", "100001"):
        with pytest.raises(BadSetting, match="RX_RATE is the number of requests"):
            Door.for_host("127.0.0.1", {"RX_RATE": given_rate})


@pytest.mark.parametrize(
    ("header", "name"),
    [("localhost:8300", "localhost"), ("[::1]:8300", "::1"), ("LocalHost", "localhost"), ("", ""), ("[::1", "::1")],
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert name_of(header) == name


def test_another_name_than_the_exchanges_own_is_not_answered(nobody: Caller) -> None:
    """A page from elsewhere whose name was made to resolve to this machine sends its own name."""
    for host in ("rebound.example", "localhost.rebound.example", "127.0.0.1.nip.example:8300"):
        for path in ("/", "/api/runs", "/health", "/nothing"):
            answer = nobody.http.get(path, headers={"Host": host})
            assert answer.status_code == 421
            assert set(answer.json()) == {"error", "status"}
            assert answer.headers["x-content-type-options"] == "nosniff"
    for host in ("localhost", "[::1]:9", "127.0.0.1"):
        assert nobody.http.get("/health", headers={"Host": host}).status_code == 200


def _answer_to(caller: Caller, request: bytes) -> bytes:
    with socket.create_connection((caller.http.base_url.host, caller.http.base_url.port or 80), timeout=20) as line:
        line.sendall(request)
        return line.recv(4096)


def test_a_body_that_is_declared_too_large_is_not_waited_for(nobody: Caller) -> None:
    request = b"POST /api/specs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    assert _answer_to(nobody, request).startswith(b"HTTP/1.1 413")


def test_a_body_of_two_lengths_is_refused(nobody: Caller) -> None:
    """A proxy that goes by the other length would take the rest of this body for the next request."""
    both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    answer = _answer_to(nobody, b"POST /api/specs HTTP/1.1\r\nHost: localhost\r\n" + both)
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_body_that_stops_is_not_waited_for_for_ever(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_SILENCE", 0.2)
    head = f"POST /api/specs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin.token}\r\n".encode()
    answer = _answer_to(admin, head + b'Content-Length: 100\r\n\r\n{"title"')
    assert answer.startswith(b"HTTP/1.1 408")


def test_whoever_asks_too_often_is_told_when_to_come_back(data: Path) -> None:
    door = Door(per_caller=Rate(per_second=0.01, burst=3), per_address=Rate(per_second=0.01, burst=8))
    with in_thread(create_app(data, door=door)) as url, httpx.Client(base_url=url, verify=NO_TLS) as http:

        def ask(token: str) -> httpx.Response:
            return http.post("/api/specs", content=b"{}", headers={"Authorization": f"Bearer {token}"})

        assert [ask("one").status_code for _ in range(4)] == [401, 401, 401, 429]
        refused = ask("one")
        assert 1 <= int(refused.headers["retry-after"]) <= 100
        assert refused.json()["status"] == 429
        assert ask("two").status_code == 401
        assert [ask(f"made-up-{number}").status_code for number in range(3)] == [401, 401, 429]


def test_a_runner_that_is_told_to_wait_loses_no_update(data: Path) -> None:
    door = Door(per_caller=Rate(per_second=2, burst=2))
    with in_thread(create_app(data, door=door)) as url:
        exchange = Exchange(url, (data / "admin-token").read_text().strip())
        run = exchange.create_run(exchange.register(scenarios.encode(scenarios.spec())))
        for step in range(6):
            run.metric(step=step, reward=0.5)
        assert len(run.record()["updates"]) == 6


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60))
def test_a_bucket_never_lets_more_through_than_it_holds_and_gains(pauses: list[float]) -> None:
    now = 0.0
    buckets = Buckets(Rate(per_second=2, burst=3), lambda: now)
    passed = 0
    for pause in pauses:
        now += pause
        wait = buckets.take("somebody")
        passed += wait is None
        assert passed <= 3 + 2 * now + 1e-6
        if wait is not None:
            held, now = now, now + wait
            assert buckets.take("somebody") is None
            passed, now = passed + 1, max(now, held)


def test_strangers_fill_no_memory() -> None:
    buckets = Buckets(Rate(1, 1), lambda: 0.0)
    for number in range(MOST_CALLERS + 10):
        buckets.take(str(number))
    assert len(buckets) == MOST_CALLERS
