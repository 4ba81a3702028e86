"""A full server says which limit is reached and when to come again, and nobody waits for what was refused."""

from pathlib import Path

import httpx
import pytest
from httpx import Response

from spindle.control.limits import Limits
from tests.spindle.wire.desk import open_desk


def refused(reply: Response, status: int, limit: str) -> str:
    assert reply.status_code == status
    assert int(reply.headers["retry-after"]) >= 1
    assert int(reply.headers["content-length"]) > 20
    answer = reply.json()
    assert answer["limit"] == limit
    assert limit in answer["detail"]
    return str(answer["detail"])


def test_too_many_sessions_are_a_503_until_one_ends(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(sessions=1)) as desk:
        assert "1 are open" in refused(desk.post("create_session", {}), 503, "sessions")
        desk.post(f"sessions/{desk.session}/finish", {"reason": {"type": "success"}})
        assert desk.post("create_session", {}).status_code == 200


def test_too_many_models_are_a_503_until_one_goes_but_a_retry_is_its_own_model(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(models=1)) as desk:
        first = desk.model(0)
        body = {"session_id": desk.session, "model_seq_id": 1, "base_model": "base"}
        assert "1 training runs are live" in refused(desk.post("create_model", body), 503, "models")
        state = {
            "session_id": desk.session,
            "model_seq_id": 2,
            "path": f"tinker://{first}/weights/a",
            "optimizer": True,
        }
        refused(desk.post("load_weights", state), 503, "models")
        assert desk.model(0) == first
        assert desk.ended(desk.post("unload_model", {"model_id": first})) == {"type": "unload_model", "model_id": first}
        assert desk.ended(desk.post("create_model", body))["model_id"] == f"{desk.session}:train:1"


def test_a_failed_creation_takes_no_room(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(models=1)) as desk:
        bad = {"session_id": desk.session, "model_seq_id": 0, "base_model": "missing"}
        assert "no base model" in desk.failure(desk.post("create_model", bad))
        assert desk.model(1)


def test_too_many_samples_are_a_429_and_one_that_was_taken_in_never_is(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(queued_sequences=4)) as desk:
        sampler = desk.sampler()
        with desk.blocked():
            large = desk.sample(sampler, 0, num_samples=9)
            assert large.status_code == 200, "a request that is alone is never too large"
            detail = refused(desk.sample(sampler, 1), 429, "queued_sequences")
            assert "9 samples wait or run already, 1 more would exceed 4" in detail
            assert desk.sample(sampler, 0, num_samples=9).json() == large.json()
        assert len(desk.ended(large)["sequences"]) == 9
        assert desk.sample(sampler, 1).status_code == 200


def test_too_many_tokens_are_a_429_but_never_for_the_command_whose_turn_is_next(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(queued_tokens=10)) as desk:
        model = desk.model()
        parked = desk.gradient(model, 2, tokens=10)
        assert "1 more would exceed 10" in refused(desk.gradient(desk.model(1), 2), 429, "queued_tokens")
        refused(desk.sample(desk.sampler(), 0), 429, "queued_tokens")
        assert desk.gradient(model, 2, tokens=10).json() == parked.json()
        assert desk.step(model, 3).status_code == 200, "what has no tokens costs none"
        first = desk.gradient(model, 1, tokens=10)
        assert desk.ended(first)["metrics"] == desk.ended(parked)["metrics"] == {"loss:sum": 1.0}
        assert desk.ended(desk.gradient(model, 4, tokens=10))["metrics"]


def test_parts_that_no_server_could_hold_until_the_first_one_comes_fail_in_their_turn(tmp_path: Path) -> None:
    """The client sends the first part only when all others were taken in: to let them wait would hang it."""
    with open_desk(tmp_path, Limits(queued_tokens=10)) as desk:
        model = desk.model()
        held = desk.gradient(model, 2, tokens=10)
        beyond = desk.gradient(model, 3, tokens=1)
        assert desk.service.training.tokens.held_by(model) == 10, "what is refused holds nothing"
        assert desk.ended(desk.gradient(model, 1, tokens=1))["metrics"]
        assert desk.ended(held)["metrics"]
        assert "send less than 10 tokens at a time" in desk.failure(beyond)
        assert desk.ended(desk.gradient(model, 4, tokens=10))["metrics"]


def test_a_running_model_that_runs_ahead_is_told_to_wait(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(queued_tokens=10)) as desk, desk.blocked():
        model = f"{desk.session}:train:99"
        assert desk.gradient(model, 2, tokens=10).status_code == 200, "it is next"
        refused(desk.gradient(model, 4, tokens=1), 429, "queued_tokens")


@pytest.mark.parametrize("route", ["optim_step", "forward_backward", "asample", "create_session"])
def test_a_body_beyond_the_limit_is_a_413(tmp_path: Path, route: str) -> None:
    with open_desk(tmp_path, Limits(body_bytes=1000)) as desk:
        reply = desk.post(route, {"x": "y" * 2000})
        assert reply.status_code == 413
        assert "the limit body_bytes" in reply.json()["detail"]


def test_a_gradient_beyond_the_limit_keeps_its_place_and_fails_there(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(body_bytes=1000)) as desk:
        model = desk.model()
        assert "longer than 1000 bytes" in desk.failure(desk.gradient(model, 1, tokens=2000))
        assert desk.ended(desk.step(model, 2))["metrics"]


def test_what_is_far_beyond_the_limit_is_not_even_read_to_its_end(tmp_path: Path) -> None:
    with open_desk(tmp_path, Limits(body_bytes=1000)) as desk:
        try:
            reply = desk.http.post("/api/v1/optim_step", content=(b"x" * 100_000 for _ in range(100)))
        except httpx.TransportError:
            return  # cut off while it was sending
        assert reply.status_code == 413
