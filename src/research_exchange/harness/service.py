"""The stock SDK's client of a training service, with what a proxy in front of the service asks for."""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

import tinker
from tinker.lib.public_interfaces import training_client
from tinker.types.optimizer import OptimizerConfigBase

from research_exchange.harness.errors import HarnessError

__all__ = ["FORK", "SHARED", "adamw_client", "deprecated_on_purpose", "proxy_headers", "rest_client", "service_client"]

SHARED, FORK = "MODAL_PROXY_TOKEN", "RUNS_PROXY_TOKEN"
"""The two logins of a proxy, each a pair of variables that end in _ID and _SECRET: a shared service's, and that of a
fork of it (R-053)."""

CLOSE_SECONDS = 60.0
"""How long the end of a client may take; the service forgets one that it no longer hears of by itself."""

_HEADERS = {"Modal-Key": "ID", "Modal-Secret": "SECRET"}

log = logging.getLogger(__name__)


def proxy_headers(login: str = SHARED, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The headers that a proxy's login consists of; none where the environment has no such login.

    Raises:
        HarnessError: only one variable of the pair is set. The sentence names it and never its value.
    """
    variables = {header: f"{login}_{part}" for header, part in _HEADERS.items()}
    missing = [name for name in variables.values() if not environment.get(name)]
    if len(missing) == len(variables):
        return {}
    if missing:
        given = next(name for name in variables.values() if name not in missing)
        raise HarnessError(f"{given} is set and {missing[0]} is not; a proxy's login takes both, so set it or neither.")
    return {header: environment[name] for header, name in variables.items()}


def service_client(
    login: str = SHARED, *, base_url: str | None = None, api_key: str | None = None, name: str | None = None
) -> tinker.ServiceClient:
    """A client of the service that the arguments, or TINKER_BASE_URL and TINKER_API_KEY, name.

    Each has a session of its own: what is created through it is released when it is closed, so give preflights one
    and the training another (R-205). A proxy's login goes with every request but downloads, whose addresses are signed.

    Args:
        login: `SHARED` or `FORK`; where its variables are not set, no headers are added.
        name: What the service's list of sessions calls it.

    Raises:
        HarnessError: half of a login is set.
    """
    return _ClientThatEnds(
        base_url=base_url, api_key=api_key, display_name=name, default_headers_overrides=proxy_headers(login)
    )


class _ClientThatEnds(tinker.ServiceClient):
    """The end of a `with` block waits no longer than `CLOSE_SECONDS`.

    The SDK itself waits for ever: for a service that is away, and once in a while for an answer that its HTTP library
    has lost on the way. What was trained and posted is safe by then, and the script must not hang on it.
    """

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_error = exc_type is not None and issubclass(exc_type, Exception)
        closing = self.close("success" if exc_type is None else "errored" if is_error else "interrupted")
        try:
            closing.result(timeout=CLOSE_SECONDS)
        except TimeoutError:
            log.warning("The training service did not confirm the end of the session within %g s.", CLOSE_SECONDS)


def rest_client(service: tinker.ServiceClient) -> tinker.RestClient:
    """The service's lists and downloads, with the headers of `service`; `tinker.RestClient()` takes none."""
    with deprecated_on_purpose():
        return service.create_rest_client()


@contextmanager
def deprecated_on_purpose() -> Iterator[None]:
    """For a call that the SDK advises against, by a warning or in its log, and that alone does what is needed."""

    def is_news(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("DEPRECATED")

    log = logging.getLogger(training_client.__name__)
    log.addFilter(is_news)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="DEPRECATED", category=FutureWarning)
            yield
    finally:
        log.removeFilter(is_news)


def adamw_client(
    service: tinker.ServiceClient, base_model: str, *, rank: int, seed: int, settings: Mapping[str, float]
) -> tinker.TrainingClient:
    """A LoRA training client whose AdamW is fixed when it is created; the service fails a step that says otherwise.

    Args:
        service: Where it is created.
        base_model: By the name that the service knows it under.
        rank: Of the adapter.
        seed: Of the adapter's first weights.
        settings: Every setting that is fixed, such as `weight_decay`; a learning rate that changes is none of them.
    """
    optimizer = OptimizerConfigBase.model_validate({"type": "adamw", **settings})
    return service.create_lora_training_client(base_model, rank=rank, seed=seed, optimizer=optimizer).result()
