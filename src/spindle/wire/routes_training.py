"""Training runs: every command gets a promise at once, also one that cannot be executed.

A command with a readable address is never refused by an HTTP status: its id would be missing in the order for ever.
What is wrong with it becomes a promise that fails in its turn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter, Request

from spindle.backends.contract import UserError
from spindle.control import Promise
from spindle.control.training import NewModel
from spindle.wire.bodies import Rejected, owner_of, parse, read, read_object, service_of
from spindle.wire.clients import reads_hyperparameters
from spindle.wire.requests import (
    Address,
    CreateFromState,
    CreateModel,
    LoadWeights,
    ModelAddress,
    NewModelAddress,
    OptimStep,
    SaveForSampler,
    SaveWeights,
)
from spindle.wire.results import model_info

router = APIRouter()
Json = dict[str, Any]

INFLIGHT = "inflight"
KINDS = ("snapshot", INFLIGHT)
"""Samplers without a name: weights as they are now, or as the latest save of that kind left them."""


@router.post("/create_model")
async def create_model(request: Request) -> Json:
    """A model that is not offered is refused at once: no other request waits for this one."""
    wanted = await read(request, CreateModel)
    new = _new(wanted)
    promise = service_of(request).training.create(
        new, wanted.base_model, wanted.lora_config.to_contract(), wanted.optimizer_config.to_contract()
    )
    return promised(promise, new.model_id)


@router.post("/load_weights")
async def load_weights(request: Request) -> Json:
    """Into a live model (addressed like any command), or as the creation of a new one."""
    body = await read_command(request)
    training = service_of(request).training

    def load(address: Address) -> Promise:
        wanted = parse(LoadWeights, body)
        return training.load_state(address.model_id, address.seq_id, wanted.path, with_optimizer=wanted.optimizer)

    if "session_id" not in body:
        return command(request, body, load)
    wanted = parse(CreateFromState, body)
    new = _new(wanted)
    optimizer = None if wanted.optimizer_config is None else wanted.optimizer_config.to_contract()
    promise = training.create_from_state(
        new, wanted.path, wanted.base_model, optimizer, with_optimizer=wanted.optimizer
    )
    return promised(promise, new.model_id)


@router.post("/optim_step")
async def optim_step(request: Request) -> Json:
    body = await read_command(request)

    def submit(address: Address) -> Promise:
        params = parse(OptimStep, body).to_contract()
        return service_of(request).training.optim_step(address.model_id, address.seq_id, params)

    return command(request, body, submit)


@router.post("/save_weights")
async def save_weights(request: Request) -> Json:
    body = await read_command(request)

    def submit(address: Address) -> Promise:
        wanted = parse(SaveWeights, body)
        return service_of(request).training.save_state(address.model_id, address.seq_id, wanted.path, wanted.options())

    return command(request, body, submit)


@router.post("/save_weights_for_sampler")
async def save_weights_for_sampler(request: Request) -> Json:
    """Named when it has a path; else an ephemeral snapshot with a sampling session on it."""
    body = await read_command(request)
    training = service_of(request).training

    def submit(address: Address) -> Promise:
        wanted = parse(SaveForSampler, body)
        if wanted.path is not None:
            return training.save_for_sampler(address.model_id, address.seq_id, wanted.path, wanted.options())
        if wanted.sampling_session_seq_id is None or wanted.kind not in KINDS:
            raise UserError(
                f"A sampler needs a path, or a sampling_session_seq_id and a kind of {' or '.join(KINDS)}; "
                f"found kind {wanted.kind!r} and sampling_session_seq_id {wanted.sampling_session_seq_id}."
            )
        follows = wanted.kind == INFLIGHT
        return training.snapshot(address.model_id, address.seq_id, wanted.sampling_session_seq_id, follows=follows)

    return command(request, body, submit)


@router.post("/get_info")
async def get_info(request: Request) -> Json:
    body = await read(request, ModelAddress)
    return model_info(service_of(request).training.info(body.model_id), whole=reads_hyperparameters(request))


@router.post("/unload_model")
async def unload_model(request: Request) -> Json:
    """Clients up to 0.25 can; later ones finish their session."""
    body = await read(request, ModelAddress)
    return promised(service_of(request).training.unload(body.model_id), body.model_id)


# ---- for all commands, also those of other modules


async def read_command(request: Request) -> Json:
    """The JSON body of a command."""
    with unread(request):
        return await read_object(request)


def command(request: Request, body: Json, submit: Callable[[Address], Promise]) -> Json:
    """Submit a command; one that makes no sense keeps its place in the order and fails there."""
    with unread(request):
        address = parse(Address, body)
    try:
        promise = submit(address)
    except UserError as error:
        promise = service_of(request).training.refuse(address.model_id, address.seq_id, error)
    return promised(promise, address.model_id)


@contextmanager
def unread(request: Request) -> Iterator[None]:
    """A command whose place in the order cannot be read is refused, and its successors do not wait long for it."""
    try:
        yield
    except (Rejected, UserError):
        service_of(request).training.unread(owner_of(request))
        raise


def promised(promise: Promise, model_id: str) -> Json:
    return {"request_id": promise.request_id, "model_id": model_id}


def _new(wanted: NewModelAddress) -> NewModel:
    return NewModel(wanted.session_id, wanted.model_seq_id, wanted.user_metadata)
