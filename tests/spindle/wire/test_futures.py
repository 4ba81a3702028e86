"""Fetching results: one by one, many at once, in the form that the client reads."""

import threading
import time
from typing import Any

import numpy as np
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response

from tests.spindle.wire.desk import Desk

WANTS_PROTOBUF = "application/x-protobuf, application/json"


def poll(desk: Desk, sampler: str, cursor: int = 0, **fields: Any) -> Any:
    clone = fields.pop("clone", 0)
    target = {"type": "sampling_session", "sampling_session_id": sampler, "cloned_sampler_id": clone}
    reply = desk.post("retrieve_futures", {"target": target, "prev_cursor": cursor} | fields)
    assert reply.status_code == 200
    return reply.json()


def test_one_poll_hears_of_every_sample_of_its_client_and_of_no_other(desk: Desk) -> None:
    sampler, other = desk.sampler(0), desk.sampler(1)
    mine = [desk.sample(sampler, number).json()["request_id"] for number in range(3)]
    clone = desk.sample(sampler, 1_000_000_000).json()["request_id"]
    desk.ended(desk.sample(other, 0))
    heard: dict[str, str] = {}
    cursor = 0
    while len(heard) < 3:
        reply = poll(desk, sampler, cursor)
        assert reply["cursor"] > cursor
        cursor = reply["cursor"]
        heard |= {completion["request_id"]: completion["state"] for completion in reply["completions"]}
    assert heard == dict.fromkeys(mine, "finished")
    assert poll(desk, sampler, cursor, timeout=0) == {"completions": [], "cursor": cursor}
    found = poll(desk, sampler, clone=1)["completions"]
    assert found == [{"state": "finished", "request_id": clone}]


def test_a_poll_is_held_until_something_ends(desk: Desk) -> None:
    sampler = desk.sampler()
    timer = threading.Timer(0.3, lambda: desk.sample(sampler, 0, num_samples=0))
    timer.start()
    begun = time.monotonic()
    completions = poll(desk, sampler)["completions"]
    assert 0.2 < time.monotonic() - begun < 10
    assert completions == [{"state": "failed", "request_id": f"{sampler}:0"}]
    assert poll(desk, sampler, timeout=0.05)["completions"] == completions, "nobody said that it was heard"
    timer.join()


def test_what_was_retrieved_is_forgotten_and_a_poll_of_nothing_known_is_a_404(desk: Desk) -> None:
    sampler = desk.sampler()
    promise = desk.sample(sampler, 0)
    assert "sequences" in desk.ended(promise)
    cursor = poll(desk, sampler)["cursor"]
    poll(desk, sampler, cursor, timeout=0, retrieved_request_ids=[promise.json()["request_id"], "unknown"])
    assert "no longer holds" in desk.failure(promise)
    target = {"type": "sampling_session", "sampling_session_id": f"{sampler}9"}
    assert desk.post("retrieve_futures", {"target": target}).status_code == 404


def test_a_poll_for_no_length_of_time_is_refused(desk: Desk) -> None:
    """A timer for NaN seconds would upset the order of all the others."""
    body = f'{{"target": {{"sampling_session_id": "{desk.sampler()}"}}, "timeout": NaN}}'
    reply = desk.http.post("/api/v1/retrieve_futures", content=body)
    assert reply.status_code == 400
    assert "timeout" in reply.json()["detail"]


def test_only_results_of_the_sampling_session_that_is_asked_about_are_forgotten(desk: Desk) -> None:
    sampler, model = desk.sampler(), desk.model()
    step = desk.step(model, 1)
    assert desk.ended(step)["metrics"]
    poll(desk, sampler, timeout=0, retrieved_request_ids=[step.json()["request_id"]])
    assert desk.ended(step)["metrics"]


def test_a_sample_that_nobody_waits_for_is_not_computed(desk: Desk) -> None:
    sampler = desk.sampler()
    with desk.blocked():
        promise = desk.sample(sampler, 0)
        assert desk.post("cancel_future", {"request_id": promise.json()["request_id"]}).status_code == 204
        assert desk.failure(promise) == "The request was cancelled by its client, or with its session."
    assert poll(desk, sampler)["completions"][0]["state"] == "failed"
    assert desk.ended(desk.sample(sampler, 1))["sequences"]
    assert sum(call.startswith("sample") for call in desk.backend.calls) == 1


def test_a_command_of_a_training_run_is_not_cancelled(desk: Desk) -> None:
    model = desk.model()
    parked = desk.step(model, 2)
    desk.post("cancel_future", {"request_id": parked.json()["request_id"]})
    desk.step(model, 1)
    assert desk.ended(parked)["metrics"]


def test_results_come_in_protobuf_where_the_client_reads_it_and_in_json_elsewhere(desk: Desk) -> None:
    model, sampler = desk.model(), desk.sampler()
    request_id = desk.sample(sampler, 0, num_samples=2).json()["request_id"]
    reply = desk.post("retrieve_future", {"request_id": request_id}, accept=WANTS_PROTOBUF)
    assert "application/x-protobuf" in reply.headers["content-type"]
    assert len(deserialize_sample_response(reply.content).sequences) == 2
    plain = desk.post("retrieve_future", {"request_id": request_id}, accept="application/json").json()
    assert plain["type"] == "sample"
    assert plain["sequences"] == [{"tokens": [0], "logprobs": [0.0], "stop_reason": "stop"}] * 2
    request_id = desk.gradient(model, 1).json()["request_id"]
    reply = desk.post("retrieve_future", {"request_id": request_id}, accept="application/x-protobuf")
    assert deserialize_forward_backward_output(reply.content).metrics == {"loss:sum": 1.0}
    plain = desk.post("retrieve_future", {"request_id": request_id}, accept="application/json").json()
    assert plain == {"loss_fn_output_type": "ArrayRecord", "loss_fn_outputs": [], "metrics": {"loss:sum": 1.0}}


def test_a_diverged_run_has_metrics_that_older_clients_read(desk: Desk) -> None:
    desk.backend.loss = float("nan")
    model = desk.model()
    answer = desk.ended(desk.gradient(model, 1))
    assert np.isnan(answer["metrics"]["loss:sum"])
