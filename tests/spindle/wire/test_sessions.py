"""Sessions: what is kept of them, how they end, and finding them again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from spindle.control.sessions import SILENT
from tests.spindle.wire.desk import KEYS, PROTOBUF, Desk, gradient, open_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A server without other tests' sessions."""
    with open_desk(tmp_path) as desk:
        yield desk


def opened(desk: Desk, **fields: Any) -> str:
    return str(desk.post("create_session", fields).json()["session_id"])


def found(desk: Desk, **filters: Any) -> list[str]:
    reply = desk.post("sessions/search", filters)
    assert reply.status_code == 200, reply.text
    return [row["session_id"] for row in reply.json()["sessions"]]


def finish(desk: Desk, session: str, reason: str = "success", detail: str | None = None) -> None:
    reply = desk.post(f"sessions/{session}/finish", {"reason": {"type": reason}, "detail": detail})
    assert reply.status_code == 204


def test_what_a_client_says_of_its_session_is_kept(desk: Desk) -> None:
    session = opened(desk, display_name="Sunday run", user_metadata={"seed": 3}, project_id="papers", tags=["a"])
    shown = desk.get(f"sessions/{session}").json()
    assert shown["display_name"] == "Sunday run"
    assert shown["user_metadata"] == {"seed": "3"}
    assert (shown["training_run_ids"], shown["sampler_ids"]) == ([], [])
    model, sampler = desk.model(), desk.sampler()
    shown = desk.get(f"sessions/{desk.session}").json()
    assert (shown["training_run_ids"], shown["sampler_ids"]) == ([model], [sampler])


def test_sessions_are_listed_newest_first_a_page_at_a_time_and_to_their_owner_only(desk: Desk) -> None:
    newer = opened(desk)
    assert desk.get("sessions").json()["sessions"] == [newer, desk.session]
    assert desk.get("sessions?limit=1&offset=1&access_scope=accessible").json()["sessions"] == [desk.session]
    assert desk.get("sessions", KEYS["bob"]).json() == {"sessions": []}
    assert desk.get(f"sessions/{newer}", KEYS["bob"]).status_code == 404


def test_what_is_in_a_session_belongs_to_its_owner(desk: Desk) -> None:
    """Ids of runs may become known, as those of what was published do; that opens nothing."""
    model, sampler, bob = desk.model(), desk.sampler(), {"X_API_Key": KEYS["bob"]}
    promise = desk.step(model, 1).json()["request_id"]
    command = {"model_id": model, "seq_id": 2}
    target = {"target": {"type": "sampling_session", "sampling_session_id": sampler}}
    for route, body in {
        "session_heartbeat": {"session_id": desk.session},
        f"sessions/{desk.session}/finish": {"reason": {"type": "success"}},
        "create_model": {"session_id": desk.session, "model_seq_id": 1, "base_model": "base"},
        "optim_step": command | {"adam_params": {}},
        "forward": command,
        "get_info": {"model_id": model},
        "unload_model": {"model_id": model},
        "create_sampling_session": {"session_id": desk.session, "sampling_session_seq_id": 1, "base_model": "base"},
        "join_sampling_session": {"sampling_session_id": sampler},
        "asample": {"sampling_session_id": sampler, "seq_id": 0},
        "retrieve_future": {"request_id": promise},
        "cancel_future": {"request_id": promise},
        "retrieve_futures": target,
    }.items():
        assert desk.post(route, body, **bob).status_code == 404, route
    assert desk.get(f"samplers/{sampler}", KEYS["bob"]).status_code == 404
    request = gradient(model, 2).SerializeToString()
    headers = PROTOBUF | {"X-API-Key": KEYS["bob"]}
    for content in (request, request[:-1]):
        assert desk.http.post("/api/v1/forward_backward", content=content, headers=headers).status_code == 404
    assert desk.ended(desk.step(model, 2))["metrics"]


def test_what_was_in_a_session_of_an_earlier_process_belongs_to_its_owner(desk: Desk, tmp_path: Path) -> None:
    model = desk.model()
    saved = desk.post("save_weights", {"model_id": model, "seq_id": 1, "path": "secret"})
    desk.ended(saved)
    desk.service.engine.stop(5)
    with open_desk(tmp_path) as later:
        assert "weights/secret" in later.ended(saved)["error"]
        for route, body in {
            "retrieve_future": saved.json(),
            "get_info": {"model_id": model},
            "optim_step": {"model_id": model, "seq_id": 2},
        }.items():
            reply = later.post(route, body, X_API_Key=KEYS["bob"])
            assert reply.status_code == 404, route
            assert "secret" not in reply.text


def test_sessions_of_an_earlier_process_are_known_by_their_training_runs(desk: Desk, tmp_path: Path) -> None:
    model, session = desk.model(), desk.session
    desk.service.engine.stop(5)
    with open_desk(tmp_path) as later:
        assert later.get("sessions").json()["sessions"] == [later.session, session]
        assert later.get(f"sessions/{session}").json()["training_run_ids"] == [model]
        assert found(later, statuses=[{"type": "active"}]) == [later.session]


def test_the_first_reason_stays_and_a_finished_session_hears_410(desk: Desk) -> None:
    finish(desk, desk.session, "errored", "it broke")
    finish(desk, desk.session, "success")
    finish(desk, "never-here")
    beat = desk.post("session_heartbeat", {"session_id": desk.session})
    assert beat.status_code == 410
    assert "create a new ServiceClient" in beat.json()["detail"]
    status = desk.post("sessions/search", {}).json()["sessions"][0]["status"]
    assert status == {"type": "client_finished", "reason": {"type": "errored"}, "detail": "it broke"}
    assert desk.post(f"sessions/{desk.session}/finish", {"reason": {"type": "odd"}}).status_code == 400


def test_a_session_may_be_moved_to_a_project_with_its_runs(desk: Desk) -> None:
    model = desk.model()
    url, headers = f"/api/v1/sessions/{desk.session}/project", {"X-API-Key": KEYS["bob"]}
    assert desk.http.put(url, json={"project_id": "p"}, headers=headers).status_code == 404
    assert desk.http.put(url, json={"project_id": "p"}).status_code == 204
    run = desk.service.catalogue.run(model)
    assert run is not None
    assert run.project_id == "p"
    assert found(desk, project_ids=["p"]) == [desk.session]
    assert found(desk, project_ids=["default"]) == []


def test_nobody_waits_for_the_disk_while_a_session_is_moved(desk: Desk) -> None:
    url = f"/api/v1/sessions/{desk.session}/project"
    desk.model()
    with ThreadPoolExecutor() as threads:
        with desk.service.catalogue._changing:
            moved = threads.submit(desk.http.put, url, json={"project_id": "p"})
            assert not wait([moved], 0.3).done
            assert desk.http.get("/api/v1/healthz", timeout=3).json() == {"status": "ok"}
        assert moved.result(5).status_code == 204


def test_traces_are_not_kept_and_that_is_said(desk: Desk) -> None:
    assert desk.get(f"sessions/{desk.session}/trace_export").json()["status"] == "failed"
    assert desk.get("sessions/unknown/trace_export").status_code == 404


def test_sessions_are_found_by_name_metadata_status_and_owner(desk: Desk) -> None:
    blue = opened(desk, display_name="The Blue run", user_metadata={"colour": "blue", "seed": "1"})
    red = opened(desk, display_name="a red run", user_metadata={"colour": "red", "seed": "1"})
    finish(desk, red)
    assert found(desk) == [red, blue, desk.session]
    assert found(desk, display_name="RUN blue") == [blue]
    assert found(desk, display_name="blue", session_id=red) == [red, blue], "either one is enough"
    assert found(desk, session_id="unknown") == []
    assert found(desk, user_metadata={"seed": "1", "colour": "red"}) == [red]
    assert found(desk, statuses=[{"type": "client_finished", "reasons": ["success"]}]) == [red]
    assert found(desk, statuses=[{"type": "client_finished", "reasons": ["errored"]}]) == []
    assert found(desk, statuses=[{"type": "active"}, {"type": "failed"}]) == [blue, desk.session]
    assert found(desk, owner={"type": "user", "owner_urns": ["bob"]}) == []
    assert found(desk, owner={"type": "user", "owner_urns": ["ann"]}) == [red, blue, desk.session]
    desk.service.end_session(blue, SILENT)
    assert desk.post("sessions/search", {"session_id": blue}).json()["sessions"][0]["status"] is None


def test_a_search_goes_on_where_the_last_page_ended(desk: Desk) -> None:
    every = [*reversed([opened(desk) for _ in range(4)]), desk.session]
    seen, cursor = [], None
    for _ in range(3):
        reply = desk.post("sessions/search", {"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [row["session_id"] for row in reply["sessions"]]
        cursor = reply.get("next_cursor")
    assert seen == every
    assert cursor is None
    assert desk.post("sessions/search", {"limit": 0}).status_code == 400


def test_a_row_of_a_search_counts_the_checkpoints(desk: Desk) -> None:
    model = desk.model()
    desk.ended(desk.post("save_weights", {"model_id": model, "seq_id": 1, "path": "a"}))
    row = desk.post("sessions/search", {}).json()["sessions"][0]
    assert (row["checkpoints_count"], row["checkpoint_storage_bytes"]) == (1, len(model))
    assert (row["owner"], row["project_id"]) == ("ann", "default")
    assert datetime.fromisoformat(row["created_at"]).tzinfo is not None


def test_a_retried_creation_is_one_session(desk: Desk) -> None:
    first, second = (desk.post("create_session", {}, x_idempotency_key="k").json() for _ in range(2))
    assert first == second
    assert desk.post("create_session", {}, x_idempotency_key="l").json() != first


@pytest.mark.parametrize(
    ("version", "warned"),
    [("0.38.0", False), ("0.25.0", False), ("0.24.1", True), (None, False), ("9" * 9999 + ".1", False)],
)
def test_an_old_client_hears_that_it_is_old(desk: Desk, version: str | None, warned: bool) -> None:
    headers = {} if version is None else {"x_stainless_package_version": version}
    reply = desk.post("create_session", {"sdk_version": version or ""}, **headers)
    assert reply.status_code == 200
    assert ("tinker>=0.25" in reply.json().get("warning_message", "")) == warned


@pytest.mark.parametrize(
    ("version", "all_of_it"), [("0.38.0", True), ("0.30.0", False), ("0.29.1", False), ("0.28.0", True)]
)
def test_a_client_that_refuses_hyperparameters_is_told_the_family_alone(
    desk: Desk, version: str, all_of_it: bool
) -> None:
    model = desk.model()
    path = desk.ended(desk.post("save_weights", {"model_id": model, "seq_id": 1, "path": "a"}))["path"]
    for route, body in {"weights_info": {"tinker_path": path}, "get_info": {"model_id": model}}.items():
        info = desk.post(route, body, x_stainless_package_version=version).json()
        assert (info["optimizer_config"] == {"type": "adamw"}) is not all_of_it


def test_the_key_tells_whose_it_is_and_nothing_costs_anything(desk: Desk) -> None:
    assert desk.get("auth/apikey/me", KEYS["bob"]).json()["name"] == "bob"
    assert desk.http.delete("/api/v1/auth/apikey/me").status_code == 403
    assert desk.post("auth/token", {}).status_code == 404
    assert desk.get("audit").json() == {"entries": []}
    assert desk.get("billing/usage/events").json()["data"] == []
    desk.ended(desk.post("save_weights", {"model_id": desk.model(), "seq_id": 1, "path": "a"}))
    (row,) = desk.get("billing/usage/checkpoints/current").json()["data"]
    assert (row["checkpoint_count"], row["user_name"]) == (1, "ann")
    assert desk.get("billing/usage/checkpoints/current?project_id=other").json()["data"] == []
    assert desk.get("billing/usage/checkpoints/current", KEYS["bob"]).json()["data"] == []
