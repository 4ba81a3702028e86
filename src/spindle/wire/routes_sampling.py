"""Sampling sessions and sampling."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from spindle.backends.contract import UserError
from spindle.control.samplers import Prompt
from spindle.wire.bodies import check_own, parse, read, read_object, service_of
from spindle.wire.codec import Budget
from spindle.wire.requests import MOST_SAMPLES, CreateSamplingSession, Sample, SampleAddress, SamplerAddress

router = APIRouter()
Json = dict[str, Any]


@router.post("/create_sampling_session")
async def create_sampling_session(request: Request) -> Json:
    body = await read(request, CreateSamplingSession)
    sampler = service_of(request).samplers.create(
        body.session_id, body.sampling_session_seq_id, body.base_model, body.model_path
    )
    return {"type": "create_sampling_session", "sampling_session_id": sampler.sampler_id}


@router.post("/join_sampling_session")
async def join_sampling_session(request: Request) -> Json:
    body = await read(request, SamplerAddress)
    number = service_of(request).samplers.join(body.sampling_session_id)
    return {"type": "join_sampling_session", "client_counter": number}


@router.get("/samplers/{sampler_id}")
async def get_sampler(request: Request, sampler_id: str) -> Json:
    check_own(request, sampler_id)
    sampler = service_of(request).samplers.get(sampler_id)
    return {"sampler_id": sampler_id, "base_model": sampler.base_model, "model_path": sampler.model_path}


def _prompt(request: Request, body: Json) -> Prompt:
    return parse(Sample, body).to_contract(Budget(service_of(request).limits.body_bytes))


@router.post("/asample")
async def sample(request: Request) -> Json:
    body = await read_object(request)
    address = parse(SampleAddress, body)
    samplers = service_of(request).samplers
    try:
        prompt = await run_in_threadpool(_prompt, request, body)
        promise = samplers.sample(address.sampling_session_id, address.seq_id, prompt)
    except UserError as error:
        promise = samplers.refuse(address.sampling_session_id, address.seq_id, error)
    samples = min(address.num_samples, MOST_SAMPLES)
    return {
        "request_id": promise.request_id,
        "sample_sequence_ids": [f"{promise.request_id}:{index}" for index in range(samples)],
    }
