"""`RestClient` and `AdminClient`: runs, checkpoints and sessions, listed and changed, and weights that get out."""

import asyncio
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyrage
import pytest
import tinker
from tinker import types
from tinker.types import SessionSearchRequest

from tests.conformance.data import TEXT, logprobs, prompt, supervised
from tests.conformance.test_training_loop import ADAM
from tests.servers import MODEL, SpindleServer


@pytest.fixture
def rest(server: SpindleServer) -> tinker.RestClient:
    return tinker.RestClient(base_url=server.url, api_key=server.key)


@pytest.fixture
def saved(training: tinker.TrainingClient) -> Iterator[dict[str, str]]:
    """The paths of one checkpoint of each kind."""
    states = {"weights": training.save_state("a", user_metadata={"epoch": "1"}).result(60).path}
    states["sampler_weights"] = training.save_weights_for_sampler("a").result(60).path
    states["external_weights"] = training.save_weights_external("a").result(60).path
    yield states


def fetched(url: str, first: int = 0) -> bytes:
    """What anybody gets who has the link."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={first}-"} if first else {})
    with urllib.request.urlopen(request, timeout=30) as reply:
        content: bytes = reply.read()
    return content


def row(rest: tinker.RestClient, path: str) -> types.Checkpoint:
    (found,) = (
        checkpoint
        for checkpoint in rest.list_checkpoints(path.split("/")[2]).result(30).checkpoints
        if checkpoint.tinker_path == path
    )
    return found


def test_runs_are_listed_newest_first_with_their_last_checkpoints(
    rest: tinker.RestClient, training: tinker.TrainingClient, saved: dict[str, str]
) -> None:
    page = rest.list_training_runs(limit=1).result(30)
    run = page.training_runs[0]
    assert run.training_run_id == training.model_id
    assert page.cursor.limit == 1
    assert page.cursor.total_count >= 1
    for found in (
        rest.get_training_run(training.model_id).result(30),
        rest.get_training_run_by_tinker_path(saved["weights"], access_scope="accessible").result(30),
    ):
        assert found.base_model == MODEL
        assert (found.is_lora, found.lora_rank, found.corrupted) == (True, 4, False)
        assert found.last_checkpoint is not None
        assert found.last_checkpoint.tinker_path == saved["weights"]
        assert found.last_sampler_checkpoint is not None
        assert found.last_sampler_checkpoint.tinker_path == saved["sampler_weights"]
        assert timedelta(0) <= datetime.now(UTC) - found.last_request_time < timedelta(seconds=60)
    with pytest.raises(tinker.NotFoundError, match="There is no training run"):
        rest.get_training_run("none:train:0").result(30)


def test_checkpoints_are_listed_of_one_run_and_of_all(
    rest: tinker.RestClient, training: tinker.TrainingClient, saved: dict[str, str]
) -> None:
    of_run = rest.list_checkpoints(training.model_id).result(30).checkpoints
    everything = rest.list_user_checkpoints(limit=3).result(30)
    assert [checkpoint.tinker_path for checkpoint in of_run] == list(saved.values())[::-1]
    assert everything.checkpoints == of_run
    assert everything.cursor is not None
    assert everything.cursor.total_count >= 3
    assert rest.list_user_checkpoints(limit=1, offset=1).result(30).checkpoints == of_run[1:2]
    state = of_run[-1]
    assert (state.checkpoint_id, state.checkpoint_type) == ("weights/a", "training")
    assert state.user_metadata == {"epoch": "1"}
    assert (state.public, state.expires_at) == (False, None)
    assert state.size_bytes is not None
    assert of_run[1].size_bytes is not None
    assert state.size_bytes > of_run[1].size_bytes > 1000


@pytest.mark.parametrize("kind", ["weights", "sampler_weights", "external_weights"])
def test_a_checkpoint_of_any_kind_is_described_kept_published_and_deleted(
    rest: tinker.RestClient, saved: dict[str, str], kind: str
) -> None:
    path = saved[kind]
    info = rest.get_weights_info_by_tinker_path(path).result(30)
    assert (info.base_model, info.lora_rank, info.train_unembed) == (MODEL, 4, True)
    rest.set_checkpoint_ttl_from_tinker_path(path, 7200).result(30)
    end = row(rest, path).expires_at
    assert end is not None
    assert timedelta(seconds=7000) < end - datetime.now(UTC) <= timedelta(seconds=7200)
    with pytest.raises(tinker.BadRequestError, match="ttl_seconds is 60"):
        rest.set_checkpoint_ttl_from_tinker_path(path, 60).result(30)
    rest.set_checkpoint_ttl_from_tinker_path(path, None).result(30)
    assert row(rest, path).expires_at is None
    for change, public in (
        (rest.publish_checkpoint_from_tinker_path, True),
        (rest.unpublish_checkpoint_from_tinker_path, False),
    ):
        for _ in range(2):
            change(path).result(30)
        assert row(rest, path).public is public
    rest.delete_checkpoint_from_tinker_path(path).result(30)
    for again in (
        rest.delete_checkpoint_from_tinker_path(path),
        rest.publish_checkpoint_from_tinker_path(path),
        rest.set_checkpoint_ttl_from_tinker_path(path, None),
        rest.get_weights_info_by_tinker_path(path),
    ):
        with pytest.raises(tinker.NotFoundError, match="There is no checkpoint"):
            again.result(30)


def test_a_copy_is_a_checkpoint_of_its_own_that_can_be_resumed(
    rest: tinker.RestClient,
    server: SpindleServer,
    service: tinker.ServiceClient,
    training: tinker.TrainingClient,
    saved: dict[str, str],
) -> None:
    project = f"project-{uuid.uuid4().hex[:8]}"
    copied = rest.copy_weights(saved["weights"], project, ttl_seconds=3600).result(30)
    assert copied != saved["weights"]
    assert row(rest, copied).expires_at is not None
    (run,) = rest.list_training_runs(project_id=project).result(30).training_runs
    assert run.last_checkpoint is not None
    assert run.last_checkpoint.tinker_path == copied
    rest.delete_checkpoint_from_tinker_path(saved["weights"]).result(30)
    expected = logprobs(training.forward([supervised()], "cross_entropy").result(60))[0]
    restored = service.create_training_client_from_state_with_optimizer(copied).result(60)
    assert np.array_equal(logprobs(restored.forward([supervised()], "cross_entropy").result(60))[0], expected)
    with tinker.ServiceClient(base_url=server.url, api_key=server.key, project_id=project) as archive:
        archived = archive.copy_weights(saved["sampler_weights"]).result(30)
    sampler = service.create_sampling_client(model_path=archived).result(60)
    scored = sampler.compute_logprobs(prompt(TEXT)).result(60)
    assert np.allclose(np.asarray(scored[1:], float), expected, atol=1e-4)
    with pytest.raises(tinker.NotFoundError):
        rest.copy_weights(saved["weights"], project).result(30)


def test_the_weights_of_a_sampler_start_a_new_run(
    service: tinker.ServiceClient, training: tinker.TrainingClient
) -> None:
    training.forward_backward([supervised()], "cross_entropy")
    training.optim_step(ADAM).result(60)
    path = training.save_weights_for_sampler("weights-only").result(60).path
    expected = logprobs(training.forward([supervised()], "cross_entropy").result(60))[0]
    fresh = service.create_training_client_from_state(path).result(60)
    assert np.array_equal(logprobs(fresh.forward([supervised()], "cross_entropy").result(60))[0], expected)
    assert fresh.get_info().optimizer_config.model_dump()["step"] == 0


def test_a_deleted_or_overwritten_sampler_says_so_and_a_training_state_can_be_sampled(
    rest: tinker.RestClient, service: tinker.ServiceClient, saved: dict[str, str]
) -> None:
    sampler = service.create_sampling_client(model_path=saved["sampler_weights"]).result(60)
    by_state = service.create_sampling_client(model_path=saved["weights"]).result(60)
    expected = sampler.compute_logprobs(prompt()).result(60)
    assert by_state.compute_logprobs(prompt()).result(60) == expected
    rest.delete_checkpoint_from_tinker_path(saved["sampler_weights"]).result(30)
    with pytest.raises(tinker.RequestFailedError, match="was deleted or overwritten") as refusal:
        sampler.compute_logprobs(prompt()).result(60)
    assert refusal.value.category is types.RequestErrorCategory.User
    with pytest.raises(tinker.NotFoundError, match="There is no checkpoint"):
        service.create_sampling_client(model_path=saved["sampler_weights"]).result(60)


def test_exported_files_are_fetched_without_a_key_for_an_hour(
    rest: tinker.RestClient, saved: dict[str, str], tmp_path: Path
) -> None:
    signed = rest.get_external_weights_urls(saved["external_weights"]).result(30)
    assert set(signed.urls) == {"adapter_config.json", "adapter_model.safetensors"}
    assert signed.expires - datetime.now(UTC) > timedelta(minutes=50)
    content = {name: fetched(url) for name, url in signed.urls.items()}
    assert sum(map(len, content.values())) == row(rest, saved["external_weights"]).size_bytes
    name = "adapter_model.safetensors"
    assert fetched(signed.urls[name], first=100) == content[name][100:]
    for twisted in (signed.urls[name][:-1], signed.urls[name].replace(name, "adapter_config.json")):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetched(twisted)
    rest.delete_checkpoint_from_tinker_path(saved["external_weights"]).result(30)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetched(signed.urls[name])


def test_an_encrypted_export_is_read_by_its_holders_alone(
    rest: tinker.RestClient, training: tinker.TrainingClient, saved: dict[str, str]
) -> None:
    one, other, stranger = (pyrage.x25519.Identity.generate() for _ in range(3))
    keys = [str(holder.to_public()) for holder in (one, other)]
    path = training.save_weights_external("secret", ttl_seconds=3600, age_encryption_recipients=keys).result(60).path
    assert row(rest, path).expires_at is not None
    plain = rest.get_external_weights_urls(saved["external_weights"]).result(30).urls
    for name, url in rest.get_external_weights_urls(path).result(30).urls.items():
        assert name.endswith(".age")
        content = fetched(url)
        for holder in (one, other):
            assert pyrage.decrypt(content, [holder]) == fetched(plain[name.removesuffix(".age")])
        with pytest.raises(pyrage.DecryptError):
            pyrage.decrypt(content, [stranger])
    with pytest.raises(tinker.RequestFailedError, match=r"age_encryption_recipients\[0\] is 'alice'"):
        training.save_weights_external("for-alice", age_encryption_recipients=["alice"]).result(60)


def test_sessions_are_listed_searched_and_moved(rest: tinker.RestClient, server: SpindleServer) -> None:
    name, project = f"shown {uuid.uuid4().hex}", f"project-{uuid.uuid4().hex[:8]}"
    with tinker.ServiceClient(base_url=server.url, api_key=server.key, display_name=name) as service:
        training = service.create_lora_training_client(base_model=MODEL, rank=2).result(60)
        sampler = training.save_weights_and_get_sampling_client().result(60)
        session = training.model_id.partition(":")[0]
        assert rest.list_sessions(limit=1).result(30).sessions == [session]
        told = rest.get_session(session).result(30)
        assert told.training_run_ids == [training.model_id]
        (sampler_id,) = told.sampler_ids
        assert rest.get_sampler(sampler_id).result(30).base_model == MODEL == sampler.get_base_model()
        with pytest.warns(Warning, match="experimental"):
            found = rest.search_sessions(SessionSearchRequest(display_name=name)).result(30)
        assert [summary.session_id for summary in found.sessions] == [session]
        rest.assign_session_project(session, project).result(30)
        (run,) = rest.list_training_runs(project_id=project).result(30).training_runs
        assert run.training_run_id == training.model_id
        with pytest.raises(RuntimeError, match="keeps no traces"):
            rest.export_session_trace(session).result(30)


def test_what_a_private_server_does_not_have_is_empty_or_says_so(
    rest: tinker.RestClient, server: SpindleServer
) -> None:
    admin = tinker.AdminClient(base_url=server.url, api_key=server.key)
    assert admin.get_audit_log().result(30).entries == []
    assert admin.get_billing_usage("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z").result(30).data == []
    assert admin.get_current_checkpoint_storage_usage().result(30) is not None
    with pytest.raises(RuntimeError, match="requires JWT"):
        rest.whoami().result(30)
    for client in (rest, admin):
        client.get_telemetry()


@pytest.mark.filterwarnings("ignore:DEPRECATED:FutureWarning")
def test_the_deprecated_ways_to_ask(
    rest: tinker.RestClient, server: SpindleServer, training: tinker.TrainingClient, saved: dict[str, str]
) -> None:
    admin = tinker.AdminClient(base_url=server.url, api_key=server.key)
    run, session, path = training.model_id, training.model_id.partition(":")[0], saved["weights"]
    window = ("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z")

    async def ask() -> None:
        assert (await rest.get_training_run_async(run)).training_run_id == run
        assert (await rest.get_training_run_by_tinker_path_async(path)).training_run_id == run
        assert (await rest.list_training_runs_async(limit=1)).training_runs
        assert len((await rest.list_checkpoints_async(run)).checkpoints) == 3
        assert len((await rest.list_user_checkpoints_async(limit=2)).checkpoints) == 2
        assert (await rest.get_external_weights_urls_async(saved["external_weights"])).urls
        await rest.publish_checkpoint_from_tinker_path_async(path)
        await rest.unpublish_checkpoint_from_tinker_path_async(path)
        await rest.set_checkpoint_ttl_from_tinker_path_async(path, 3600)
        copied = await rest.copy_weights_async(path, "archive")
        await rest.delete_checkpoint_from_tinker_path_async(copied)
        await rest.delete_checkpoint_async(run, "weights/a")
        assert run in (await rest.get_session_async(session)).training_run_ids
        assert session in (await rest.list_sessions_async(limit=1)).sessions
        await rest.assign_session_project_async(session, "papers")
        with pytest.raises(RuntimeError, match="keeps no traces"):
            await rest.export_session_trace_async(session)
        assert (await rest.get_audit_log_async()).entries == (await admin.get_audit_log_async()).entries == []
        for client in (rest, admin):
            assert (await client.get_billing_usage_async(*window)).data == []
            assert await client.get_current_checkpoint_storage_usage_async() is not None

    asyncio.run(ask())
    rest.delete_checkpoint(run, "sampler_weights/a").result(30)
    assert [checkpoint.checkpoint_id for checkpoint in rest.list_checkpoints(run).result(30).checkpoints] == [
        "external_weights/a"
    ]
    assert rest.get_audit_log().result(30).entries == []
    assert rest.get_billing_usage(*window).result(30).data == []
    assert rest.get_current_checkpoint_storage_usage().result(30) is not None
