"""Requests that the Exchange itself sends to an address somebody gave it, to checked addresses alone (R-242).

A name is resolved once, every address that it has is checked, and the connection goes to a checked address: a name that
resolves to something else a moment later changes nothing. Nothing is followed by itself, nothing is unpacked, and one
deadline holds for all of it, however slowly the other side sends.
"""

import functools
import http.client
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import SplitResult

import httpx

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_ADDRESSES = 16
"""Of one name."""
CHUNK_BYTES = 64 * 1024

_TUNNELLED_IPV4 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "2002::/16")))
"""IPv6 prefixes whose addresses lead to an IPv4 address inside them: NAT64 and 6to4."""
_UNICAST = ipaddress.IPv6Network("2000::/3")
_TEREDO = ipaddress.IPv6Network("2001::/32")


class OutgoingRefused(Exception):
    """Why a request was not sent, or what it met with: a clause for a person, without the address's path or query."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """By lower-case name; of a repeated one the last."""
    content: bytes


def system_addresses(host: str) -> list[Address]:
    """What the system's resolver says of a name."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def connect(address: Address, port: int, seconds: float) -> socket.socket:
    return socket.create_connection((str(address), port), timeout=seconds)


@functools.cache
def trusted_tls() -> ssl.SSLContext:
    """With the certificate authorities that browsers trust, or those of `SSL_CERT_FILE`."""
    return httpx.create_ssl_context()


@dataclass(frozen=True)
class Network:
    """How the Exchange reaches other machines; tests give another resolver and another way to connect."""

    resolve: Callable[[str], Sequence[Address]] = system_addresses
    connect: Callable[[Address, int, float], socket.socket] = connect
    tls: Callable[[], ssl.SSLContext] = trusted_tls
    allows_private: bool = False
    """Whether addresses of this machine and of private networks are reached, too, and plain http with them."""

    def send(
        self,
        method: str,
        url: SplitResult,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        limit: int,
        seconds: float,
    ) -> Answer:
        """Send one request and read the answer.

        Args:
            method: GET or POST.
            url: An https address with a host; http where private addresses are allowed.
            headers: Host and Content-Length are added.
            body: What is sent.
            limit: The most bytes of the answer's body.
            seconds: The most time for all of it, from the first connection to the last byte.

        Raises:
            OutgoingRefused: It was not sent, not answered, or answered with too much or too slowly.
        """
        deadline = time.monotonic() + seconds
        host, port = self._target(url)
        try:
            with self._connection(host, port, deadline) as raw:
                line = self._secured(raw, host, deadline) if url.scheme == "https" else raw
                with line:
                    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
                    return _exchange(_Timed(line, deadline), method, host, url, path, headers, body, limit)
        except ssl.SSLError as error:
            raise OutgoingRefused(f"no trusted TLS connection to {host}: {_tls_reason(error)}") from None
        except TimeoutError:
            raise OutgoingRefused(f"{host} did not answer in full within {seconds:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise OutgoingRefused(f"the connection to {host} failed: {why}") from None

    def _target(self, url: SplitResult) -> tuple[str, int]:
        schemes = ("https", "http") if self.allows_private else ("https",)
        if url.scheme not in schemes or not url.hostname:
            raise OutgoingRefused(f"an address of {' or '.join(schemes)} is needed")
        try:
            port = url.port
        except ValueError:
            raise OutgoingRefused("its port is no port") from None
        return url.hostname, port or (443 if url.scheme == "https" else 80)

    def _connection(self, host: str, port: int, deadline: float) -> socket.socket:
        """A connection to the first of the name's addresses that takes one, after all of them were checked."""
        try:
            addresses = self.resolve(host)[:MAX_ADDRESSES]
        except (OSError, UnicodeError):
            raise OutgoingRefused(f"the name {host} has no address") from None
        if not addresses:
            raise OutgoingRefused(f"the name {host} has no address")
        if not self.allows_private and not all(map(is_public, addresses)):
            raise OutgoingRefused(f"{host} is not a public address")
        for address in addresses[:-1]:
            try:
                return self.connect(address, port, _left(deadline))
            except TimeoutError:
                raise
            except OSError:
                continue
        return self.connect(addresses[-1], port, _left(deadline))

    def _secured(self, raw: socket.socket, host: str, deadline: float) -> ssl.SSLSocket:
        raw.settimeout(_left(deadline))
        return self.tls().wrap_socket(raw, server_hostname=host)


def is_public(address: Address) -> bool:
    """Whether an address is one of the open internet, through whatever tunnel it is written."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _inner_ipv4(address)
        if inner is not None:
            return is_public(inner)
        return address in _UNICAST and address not in _TEREDO and address.is_global
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inner_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _TUNNELLED_IPV4[0]:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour if address in _TUNNELLED_IPV4[1] else None


class _Timed:
    """A connection, as far as `http.client` needs one, on which one deadline holds for all that is sent and read."""

    def __init__(self, line: socket.socket, deadline: float) -> None:
        self._line = line
        self._deadline = deadline

    def sendall(self, content: bytes) -> None:
        self._line.settimeout(_left(self._deadline))
        self._line.sendall(content)

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._line, self._deadline))

    def close(self) -> None:
        """Whoever opened the connection closes it."""


class _TimedReader(io.RawIOBase):
    def __init__(self, line: socket.socket, deadline: float) -> None:
        self._line = line
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # typeshed's Buffer
        self._line.settimeout(_left(self._deadline))
        return self._line.recv_into(buffer)


def _exchange(
    line: _Timed,
    method: str,
    host: str,
    url: SplitResult,
    path: str,
    headers: Mapping[str, str],
    body: bytes | None,
    limit: int,
) -> Answer:
    connection = http.client.HTTPConnection(host)
    connection.sock = line
    sent = {"Host": url.netloc.rpartition("@")[2], "Accept-Encoding": "identity", "Connection": "close", **headers}
    connection.request(method, path, body=body, headers=sent)
    response = connection.getresponse()
    answered = {name.lower(): value for name, value in response.getheaders()}
    if answered.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise OutgoingRefused(f"{host} answered with packed bytes, although none were asked for")
    if (response.length or 0) > limit:
        raise OutgoingRefused(f"{host} answered with more than {limit:,} bytes")
    content = bytearray()
    while chunk := response.read(CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            raise OutgoingRefused(f"{host} answered with more than {limit:,} bytes")
    return Answer(response.status, answered, bytes(content))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _tls_reason(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", None) or error.reason or "it was broken off"
