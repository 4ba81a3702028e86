"""Gradient requests in protobuf or JSON, and uploaded losses."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from spindle.backends.contract import ForwardBackward, UserError
from spindle.wire.bodies import Rejected, check_own, owner_of, parse, read_body, read_object, service_of, too_long
from spindle.wire.codec import (
    BodyError,
    Budget,
    address_of,
    decompress,
    parse_forward_backward,
    read_forward_backward,
)
from spindle.wire.requests import Address, CreateCustomLoss, CustomLossAddress, Gradient
from spindle.wire.routes_training import promised, read_command, unread
from spindle.wire.schema_pb2 import ForwardBackwardRequest

router = APIRouter()
Json = dict[str, Any]


@router.post("/forward_backward")
@router.post("/forward")
async def forward_backward(request: Request) -> Json:
    """Protobuf from SDK 0.25 on; JSON, and `forward` as a route of its own, before."""
    if "protobuf" not in request.headers.get("content-type", ""):
        return await _from_json(request)
    body, whole = await read_body(request)
    training = service_of(request).training
    try:
        message = await run_in_threadpool(_message, request, body, whole)
    except BodyError as error:
        address = address_of(body, compressed=_is_compressed(request))
        if address is None:
            training.unread(owner_of(request))
            raise Rejected(400 if whole else 413, str(error)) from error
        check_own(request, address[0])
        return promised(training.refuse(*address, UserError(str(error))), address[0])
    check_own(request, message.model_id)
    read = partial(read_forward_backward, message, _budget(request))
    return await _submit(request, message.model_id, message.seq_id, read)


async def _from_json(request: Request) -> Json:
    body = await read_command(request)
    with unread(request):
        address = parse(Address, body)

    def read() -> ForwardBackward:
        return parse(Gradient, body).to_contract(address.model_id, _budget(request))

    return await _submit(request, address.model_id, address.seq_id, read)


async def _submit(request: Request, model_id: str, seq_id: int, read: Callable[[], ForwardBackward]) -> Json:
    """Read the data beside other requests; what is wrong with them fails in its turn."""
    training = service_of(request).training
    try:
        gradient = await run_in_threadpool(read)
    except UserError as error:
        return promised(training.refuse(model_id, seq_id, error), model_id)
    return promised(training.forward_backward(seq_id, gradient), model_id)


def _message(request: Request, body: bytes, whole: bool) -> ForwardBackwardRequest:
    if not whole:
        raise BodyError(too_long(request))
    limit = service_of(request).limits.body_bytes
    return parse_forward_backward(decompress(body, limit) if _is_compressed(request) else body)


def _is_compressed(request: Request) -> bool:
    return request.headers.get("content-encoding") == "zstd"


def _budget(request: Request) -> Budget:
    return Budget(service_of(request).limits.body_bytes)


@router.post("/create_custom_loss")
async def create_custom_loss(request: Request) -> Json:
    body = await read_object(request)
    address = parse(CustomLossAddress, body)
    losses = service_of(request).losses
    try:
        wanted = parse(CreateCustomLoss, body)
        promise = losses.create(
            address.session_id, address.custom_loss_seq_id, wanted.name, wanted.ranks(), wanted.graph
        )
    except UserError as error:
        promise = losses.refuse(address.session_id, address.custom_loss_seq_id, error)
    return {"request_id": promise.request_id}
