"""Figures for a Prometheus server: what was asked and how long it took, and what waits and runs."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from research_exchange.server.exchange import Exchange
from research_exchange.store import RunPhase

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NO_ROUTE = "none"
"""Instead of the path of a request that met no route: paths are the asker's to invent."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The figures of one application."""

    def __init__(self, exchange: Exchange) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "rx_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self.seconds = Histogram(
            "rx_request_seconds", "Time until an answer began.", ("method", "route"), registry=self._registry
        )
        self._registry.register(_OfTheStore(exchange))

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _OfTheStore(Collector):
    """What is read from the store when somebody asks."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def describe(self) -> Iterator[Metric]:
        """Nothing is read from the store before somebody asks."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._exchange.store.reading() as reader:
            counts = {phase: reader.count_runs(phase=phase) for phase in RunPhase}
            entries, sessions = reader.queue(), len(reader.open_sessions())
        now = self._exchange.clock()
        runs = GaugeMetricFamily("rx_runs", "Runs by where they stand.", labels=("phase",))
        for phase, count in counts.items():
            runs.add_metric((phase.value,), count)
        yield runs
        waited = [max((now - each.entry.not_before).total_seconds(), 0.0) for each in entries]
        yield GaugeMetricFamily("rx_queue_entries", "Runs that wait for a worker.", value=len(entries))
        yield GaugeMetricFamily(
            "rx_queue_longest_wait_seconds", "How long the first due run has waited.", value=max(waited, default=0.0)
        )
        yield GaugeMetricFamily("rx_open_sessions", "Sessions that have not ended.", value=sessions)
        made = self._exchange.judging.made
        yield CounterMetricFamily("rx_judgments", "Judgments made, those from a cache left out.", value=made)


class Measured:
    """ASGI middleware: counts every request under the route that answered it."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def send_measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                method, route = _method(scope), _route(scope)
                self._metrics.requests.labels(method, route, str(message["status"])).inc()
                self._metrics.seconds.labels(method, route).observe(time.perf_counter() - started)
            await send(message)

        await self._app(scope, receive, send_measured)


def _route(scope: Scope) -> str:
    """The path of the route that answered, with names in the place of what they stand for."""
    path = getattr(scope.get("route"), "path", None)
    if path is None:
        return _NO_ROUTE
    prefix = "/api" if scope["path"].startswith("/api/") and not path.startswith("/api/") else ""
    return f"{prefix}{path}"


def _method(scope: Scope) -> str:
    """Methods are the asker's to invent too."""
    method = str(scope["method"])
    return method if method in _METHODS else "other"
