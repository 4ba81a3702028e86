"""Training runs: every command gets a promise at once, also one that cannot be executed.

A command with a readable address is never refused by an HTTP status: its id would be missing in the order for ever.
What is wrong with it becomes a promise that fails in its turn.
"""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from spindle.backends.contract import UserError
from spindle.control import Promise
from spindle.control.paths import CheckpointPath
from spindle.control.promises import failed
from spindle.control.training import NewModel
from spindle.wire.bodies import Rejected, parse, read, read_body, read_object, service_of
from spindle.wire.codec import BodyError, decompress, parse_forward_backward, read_forward_backward
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
    WeightsInfo,
)
from spindle.wire.results import model_info, weights_info

router = APIRouter()
Json = dict[str, Any]


@router.post("/create_model")
async def create_model(request: Request) -> Json:
    body = await read_object(request)

    def submit(new: NewModel) -> Promise:
        wanted = parse(CreateModel, body)
        return service_of(request).training.create(
            new, wanted.base_model, wanted.lora_config.to_contract(), wanted.optimizer_config.to_contract()
        )

    return _create(request, body, submit)


@router.post("/load_weights")
async def load_weights(request: Request) -> Json:
    """Into a live model (addressed like any command), or as the creation of a new one."""
    body = await read_object(request)
    training = service_of(request).training

    def load(address: Address) -> Promise:
        wanted = parse(LoadWeights, body)
        return training.load_state(address.model_id, address.seq_id, wanted.path, with_optimizer=wanted.optimizer)

    def create(new: NewModel) -> Promise:
        wanted = parse(CreateFromState, body)
        optimizer = None if wanted.optimizer_config is None else wanted.optimizer_config.to_contract()
        return training.create_from_state(
            new, wanted.path, wanted.base_model, optimizer, with_optimizer=wanted.optimizer
        )

    return _create(request, body, create) if "session_id" in body else command(request, body, load)


@router.post("/forward_backward")
async def forward_backward(request: Request) -> Json:
    body = await read_body(request)
    if "protobuf" not in request.headers.get("content-type", ""):
        raise Rejected(400, "forward_backward takes protobuf bodies only: use tinker 0.25 or newer.")
    compressed = request.headers.get("content-encoding") == "zstd"
    try:
        message = await run_in_threadpool(lambda: parse_forward_backward(decompress(body) if compressed else body))
    except BodyError as error:
        raise Rejected(400, str(error)) from error
    training = service_of(request).training
    try:
        command = await run_in_threadpool(read_forward_backward, message)
    except UserError as error:
        return promised(training.refuse(message.model_id, message.seq_id, error), message.model_id)
    return promised(training.forward_backward(message.seq_id, command), message.model_id)


@router.post("/optim_step")
async def optim_step(request: Request) -> Json:
    body = await read_object(request)

    def submit(address: Address) -> Promise:
        params = parse(OptimStep, body).to_contract()
        return service_of(request).training.optim_step(address.model_id, address.seq_id, params)

    return command(request, body, submit)


@router.post("/save_weights")
async def save_weights(request: Request) -> Json:
    body = await read_object(request)

    def submit(address: Address) -> Promise:
        wanted = parse(SaveWeights, body)
        return service_of(request).training.save_state(address.model_id, address.seq_id, wanted.path, wanted.options())

    return command(request, body, submit)


@router.post("/save_weights_for_sampler")
async def save_weights_for_sampler(request: Request) -> Json:
    """Named when it has a path; else an ephemeral snapshot with a sampling session on it."""
    body = await read_object(request)
    training = service_of(request).training

    def submit(address: Address) -> Promise:
        wanted = parse(SaveForSampler, body)
        if wanted.path is not None:
            return training.save_for_sampler(address.model_id, address.seq_id, wanted.path, wanted.options())
        if wanted.kind != "snapshot" or wanted.sampling_session_seq_id is None:
            raise UserError(f"A sampler of kind {wanted.kind!r} is not supported; use kind='snapshot'.")
        return training.snapshot(address.model_id, address.seq_id, wanted.sampling_session_seq_id)

    return command(request, body, submit)


@router.post("/get_info")
async def get_info(request: Request) -> Json:
    body = await read(request, ModelAddress)
    return model_info(service_of(request).training.info(body.model_id))


@router.post("/weights_info")
async def read_weights_info(request: Request) -> Json:
    body = await read(request, WeightsInfo)
    return weights_info(service_of(request).catalogue.find(CheckpointPath.parse(body.tinker_path)))


def command(request: Request, body: Json, submit: Callable[[Address], Promise]) -> Json:
    """Submit a command; one that makes no sense keeps its place in the order and fails there."""
    address = parse(Address, body)
    try:
        promise = submit(address)
    except UserError as error:
        promise = service_of(request).training.refuse(address.model_id, address.seq_id, error)
    return promised(promise, address.model_id)


def _create(request: Request, body: Json, submit: Callable[[NewModel], Promise]) -> Json:
    """Submit a creation; one that makes no sense becomes a failed promise."""
    address = parse(NewModelAddress, body)
    new = NewModel(address.session_id, address.model_seq_id, address.user_metadata)
    try:
        promise = submit(new)
    except UserError as error:
        reason = error
        promise = service_of(request).promises.make(f"{new.model_id}:0", new.session_id, lambda: failed(reason))
    return promised(promise, new.model_id)


def promised(promise: Promise, model_id: str) -> Json:
    return {"request_id": promise.request_id, "model_id": model_id}
