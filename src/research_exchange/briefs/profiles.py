"""Service profiles: what a brief says differently depending on where a run trains and how it reports (R-056)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from research_exchange.briefs.texts import load

__all__ = ["PROFILE_NAMES", "Header", "ServiceProfile", "service_profile"]


@dataclass(frozen=True)
class Header:
    """A header that every request to a service needs."""

    name: str
    variable: str
    """The environment variable that holds its value; the value itself is in no brief (R-053)."""


@dataclass(frozen=True)
class ServiceProfile:
    """A Tinker-compatible service and its surroundings, as a brief describes them.

    The texts are Markdown. `@{run_id}` in them becomes the id of the run, and `@@` a single `@`. All that a brief says
    about a service is here, so that a profile of your own is a value of this class.
    """

    name: str
    service: str
    """How the first mention calls it: "Spindle, a Tinker-compatible training service"."""
    short: str
    """How further mentions call it: "Spindle"."""
    url_variable: str
    """The environment variable with the service's address."""
    key_variable: str
    """The environment variable with the key that the SDK sends."""
    headers: tuple[Header, ...]
    """Beside the key, for every request."""
    has_forks: bool
    """Whether a run may deploy a changed copy of the service."""
    surroundings: str
    """Bullets: what else there is to know about the session, and what to leave alone."""
    extension: str
    """One bullet: what to do about a feature that the service lacks."""
    optimizer: str
    """Bullets of the restoration preflight: how this service shows the active optimizer, and where an arm started."""
    reporting: str
    """A paragraph or more: how updates reach the Exchange."""
    attachments: str
    """One bullet of the evidence section: how large files get there."""
    cleanup: str
    """One bullet: what must not be left running."""


def service_profile(name: str) -> ServiceProfile:
    """A profile that comes with the Exchange.

    Raises:
        ValueError: if none has that name.
    """
    if name not in _PROFILES:
        raise ValueError(f"There is no service profile {name!r}; the profiles are {', '.join(PROFILE_NAMES)}.")
    return _PROFILES[name]()


def _modal_spindle() -> ServiceProfile:
    return ServiceProfile(
        name="modal-spindle",
        service="Spindle, the Tinker-compatible training service that Modal runs",
        short="Spindle",
        url_variable="TINKER_BASE_URL",
        key_variable="TINKER_API_KEY",
        headers=(
            Header("Modal-Key", "MODAL_PROXY_TOKEN_ID"),
            Header("Modal-Secret", "MODAL_PROXY_TOKEN_SECRET"),
        ),
        has_forks=True,
        surroundings=load("profiles/modal-spindle/surroundings"),
        extension=load("profiles/modal-spindle/extension"),
        optimizer=load("profiles/modal-spindle/optimizer"),
        reporting=load("profiles/modal-spindle/reporting"),
        attachments=load("profiles/modal-spindle/attachments"),
        cleanup=load("profiles/modal-spindle/cleanup"),
    )


def _spindle() -> ServiceProfile:
    return ServiceProfile(
        name="spindle",
        service="Spindle, the Tinker-compatible training service of this installation",
        short="Spindle",
        url_variable="TINKER_BASE_URL",
        key_variable="TINKER_API_KEY",
        headers=(),
        has_forks=False,
        surroundings=load("profiles/spindle/surroundings"),
        extension=load("profiles/spindle/extension"),
        optimizer=load("profiles/spindle/optimizer"),
        reporting=load("profiles/client/reporting"),
        attachments=load("profiles/client/attachments"),
        cleanup=load("profiles/client/cleanup"),
    )


def _tinker() -> ServiceProfile:
    return ServiceProfile(
        name="tinker",
        service="Tinker, the hosted training service",
        short="Tinker",
        url_variable="TINKER_BASE_URL",
        key_variable="TINKER_API_KEY",
        headers=(),
        has_forks=False,
        surroundings=load("profiles/tinker/surroundings"),
        extension=load("profiles/tinker/extension"),
        optimizer=load("profiles/tinker/optimizer"),
        reporting=load("profiles/client/reporting"),
        attachments=load("profiles/client/attachments"),
        cleanup=load("profiles/client/cleanup"),
    )


_PROFILES: Mapping[str, Callable[[], ServiceProfile]] = {
    "modal-spindle": _modal_spindle,
    "spindle": _spindle,
    "tinker": _tinker,
}

PROFILE_NAMES = tuple(_PROFILES)
"""`modal-spindle`: Modal's shared service, reported through an agent's structured-output tool. `spindle`: a server of
this repository, reported through `research_exchange.client`. `tinker`: the hosted service, reported likewise."""
