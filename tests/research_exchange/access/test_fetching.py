"""Attachments are fetched from the hosts on the list, at addresses of the open internet, within caps (R-166, R-242)."""

import gzip
import ipaddress
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.server.attachments import FetchRefused
from research_exchange.server.fetching import Fetcher
from research_exchange.server.outgoing import Address, Network, OutgoingRefused, is_public, system_addresses
from tests.research_exchange.access.tls_service import PUBLIC, Handler, Reply, Request, Service, service

FILES, SIGNED = "files.example", "signed.example"
URL = f"https://{FILES}/v1/attachments/1234/observations.jsonl"
CONTENT = b'{"arm": "trained"}\n' * 50
SECRET = "X-Amz-Signature=5ecret"


@contextmanager
def fetching(
    handler: Handler, resolve: Callable[[str], list[Address]] = lambda _: [PUBLIC]
) -> Iterator[tuple[Fetcher, Service]]:
    with service(handler, FILES, SIGNED, resolve=resolve) as served:
        yield Fetcher({FILES}, {SIGNED}, "its-token", served.network, seconds=5), served


def content(_: Request) -> Reply:
    return Reply(content=CONTENT)


def test_an_attachment_is_fetched_from_the_address_that_was_checked() -> None:
    with fetching(content) as (fetcher, served):
        assert fetcher.fetch(URL, 10_000) == CONTENT
    assert served.dialled == [PUBLIC]
    request = served.requests[0]
    assert (request.method, request.host, request.path) == ("GET", FILES, "/v1/attachments/1234/observations.jsonl")
    assert request.headers["authorization"] == "Bearer its-token"
    assert request.headers["accept-encoding"] == "identity"


def test_a_name_that_resolves_to_something_else_the_next_moment_changes_nothing() -> None:
    """DNS rebinding: the name is asked for once, and the connection goes to what was checked."""
    answers = itertools.chain([[PUBLIC]], itertools.repeat([ipaddress.ip_address("127.0.0.1")]))
    with fetching(content, resolve=lambda _: next(answers)) as (fetcher, served):
        assert fetcher.fetch(URL, 10_000) == CONTENT
        assert (served.resolved, served.dialled) == ([FILES], [PUBLIC])
        with pytest.raises(FetchRefused, match="is not a public address"):
            fetcher.fetch(URL, 10_000)
        assert served.dialled == [PUBLIC]


NOT_PUBLIC = """
    127.0.0.1 127.8.9.1 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1 192.0.2.1
    198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1
    ::127.0.0.1 ::93.184.216.34 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 2002:7f00:1:: 2002:a00:1::
    2001:0:5db8:d822::1 fe80::1 fec0::1 fc00::1 fd12::1 ff02::1 2001:db8::1 100::1
"""


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_no_private_address_is_reached_however_it_is_written(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


def test_private_addresses_are_refused_beside_public_ones_too() -> None:
    both = [PUBLIC, ipaddress.ip_address("169.254.169.254")]
    with fetching(content, resolve=lambda _: both) as (fetcher, served), pytest.raises(FetchRefused):
        fetcher.fetch(URL, 10_000)
    assert served.dialled == []


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_of_the_open_internet_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_an_ipv6_address_that_stands_for_an_ipv4_one_is_as_public_as_that(inner: ipaddress.IPv4Address) -> None:
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert is_public(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(inner))) is is_public(inner)
    assert is_public(ipaddress.IPv6Address((0x2002 << 112) | (int(inner) << 80))) is is_public(inner)


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f.1"])
def test_the_systems_resolver_is_asked_for_whatever_a_name_may_mean(host: str) -> None:
    assert not any(map(is_public, system_addresses(host)))


@pytest.mark.parametrize(
    "url",
    [
        "http://files.example/attachments/a",
        "https://elsewhere.example/attachments/a",
        "https://files.example.evil.example/attachments/a",
        "https://user@files.example/attachments/a",
        "https://files.example:8443/attachments/a",
        "https://files.example/attachments/a#part",
        "https://files.example/sessions/a",
        "https://files.example/attachments/../secrets",
        "https://127.0.0.1/attachments/a",
        "file:///home/runner/attachments/a",
        "//files.example/attachments/a",
        "https://[files.example/attachments/a",
        "",
    ],
)
def test_other_addresses_are_refused_before_anything_is_sent(url: str) -> None:
    with fetching(content) as (fetcher, served), pytest.raises(FetchRefused):
        fetcher.fetch(url, 10_000)
    assert (served.resolved, served.dialled) == ([], [])


def test_the_services_own_redirect_is_followed_without_the_token() -> None:
    def redirecting(request: Request) -> Reply:
        if request.host == FILES:
            return Reply(307, headers={"Location": f"https://{SIGNED}/bucket/1234?{SECRET}"})
        return Reply(content=CONTENT)

    with fetching(redirecting) as (fetcher, served):
        assert fetcher.fetch(URL, 10_000) == CONTENT
    assert (served.requests[1].host, served.requests[1].path) == (SIGNED, f"/bucket/1234?{SECRET}")
    assert "authorization" not in served.requests[1].headers


@pytest.mark.parametrize(
    "location",
    [
        "https://elsewhere.example/attachments/a",
        "http://signed.example/a",
        "https://signed.example:8443/a",
        "https://user:word@signed.example/a",
        "https://signed.example/a#part",
        "https://169.254.169.254/latest/meta-data/attachments/",
        "file:///etc/attachments/passwd",
        "https://[broken",
    ],
)
def test_a_redirect_to_elsewhere_is_not_followed_and_not_shown(location: str) -> None:
    redirect = Reply(302, headers={"Location": f"{location}?{SECRET}"})
    with fetching(lambda _: redirect) as (fetcher, served), pytest.raises(FetchRefused) as refused:
        fetcher.fetch(URL, 10_000)
    assert len(served.requests) == 1
    assert SECRET not in str(refused.value)


def test_a_redirect_to_a_name_of_a_private_address_is_not_followed() -> None:
    def resolve(host: str) -> list[Address]:
        return [PUBLIC if host == FILES else ipaddress.ip_address("10.0.0.7")]

    redirect = Reply(307, headers={"Location": f"https://{SIGNED}/a?{SECRET}"})
    with fetching(lambda _: redirect, resolve=resolve) as (fetcher, served), pytest.raises(FetchRefused) as refused:
        fetcher.fetch(URL, 10_000)
    assert served.dialled == [PUBLIC]
    assert str(refused.value) == f"{SIGNED} is not a public address"


def test_redirects_come_to_an_end() -> None:
    redirect = Reply(302, headers={"Location": URL})
    with fetching(lambda _: redirect) as (fetcher, served), pytest.raises(FetchRefused, match="again and again"):
        fetcher.fetch(URL, 10_000)
    assert len(served.requests) == 3


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content=b"x" * 1001),
        Reply(content=b"x" * 1001, headers={"Content-Length": ""}),
        Reply(content=gzip.compress(b"x" * 1000), headers={"Content-Encoding": "gzip"}),
        Reply(content=b"x", headers={"Content-Encoding": "br"}),
        Reply(404, b"not here"),
        Reply(500),
        Reply(206, b"part"),
        Reply(302),
    ],
)
def test_what_is_too_large_or_packed_or_no_file_is_refused(reply: Reply) -> None:
    with fetching(lambda _: reply) as (fetcher, _), pytest.raises(FetchRefused):
        fetcher.fetch(URL, 1000)


def test_a_file_of_just_the_cap_is_fetched_declared_or_not() -> None:
    replies = iter([Reply(content=b"x" * 1000), Reply(content=b"x" * 1000, headers={"Content-Length": ""})])
    with fetching(lambda _: next(replies)) as (fetcher, _):
        assert [len(fetcher.fetch(URL, 1000)) for _ in range(2)] == [1000, 1000]


def test_a_service_under_another_name_or_an_unknown_authority_is_not_trusted() -> None:
    with service(content, "other.example") as served, pytest.raises(FetchRefused, match="no trusted TLS connection"):
        Fetcher({FILES}, network=served.network, seconds=5).fetch(URL, 1000)
    with service(content, FILES) as served:
        strangers = Network(served.network.resolve, served.network.connect)
        with pytest.raises(FetchRefused, match="no trusted TLS connection"):
            Fetcher({FILES}, network=strangers, seconds=5).fetch(URL, 1000)
    assert served.requests == []


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"])
def test_a_service_that_sends_slowly_does_not_hold_anybody_up(says: bytes) -> None:
    """A byte now and then keeps no connection open beyond its deadline, in the headers as little as in the body."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stopped = threading.Event()

        def dribble() -> None:
            line, _ = listener.accept()
            with line:
                line.sendall(says)
                while says and not stopped.wait(0.05):
                    try:
                        line.sendall(b"x")
                    except OSError:
                        return
                stopped.wait(5)

        thread = threading.Thread(target=dribble)
        thread.start()
        there = ("127.0.0.1", listener.getsockname()[1])
        network = Network(lambda _: [PUBLIC], lambda *_: socket.create_connection(there), allows_private=True)
        started = time.monotonic()
        with pytest.raises(OutgoingRefused, match=r"did not answer in full within 0\.4 s"):
            network.send("GET", urlsplit("http://slow.example/"), headers={}, limit=1000, seconds=0.4)
        assert time.monotonic() - started < 3
        stopped.set()
        thread.join()


def test_hosts_come_from_the_environment() -> None:
    environment = {
        "RX_ATTACHMENT_HOSTS": "Files.example, b.example",
        "RX_ATTACHMENT_REDIRECT_HOSTS": SIGNED,
        "RX_ATTACHMENT_TOKEN": "its-token",
    }
    fetcher = Fetcher.from_environment(environment)
    assert (fetcher.hosts, fetcher.redirect_hosts) == ({FILES, "b.example"}, {SIGNED})
    assert "its-token" not in repr(fetcher)
    with pytest.raises(FetchRefused):
        Fetcher.from_environment({}).fetch(URL, 1000)
