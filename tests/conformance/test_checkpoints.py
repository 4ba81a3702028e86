"""Saving, resuming, and losing the server in between."""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
import tinker
from tinker import types

from tests.conformance.data import TEXT, logprobs, slow, supervised
from tests.servers import MODEL, SpindleServer

ADAM = types.AdamParams(learning_rate=1e-2, eps=1e-8)


def trained(service: tinker.ServiceClient, steps: int) -> tinker.TrainingClient:
    training = service.create_lora_training_client(base_model=MODEL, rank=4, seed=3).result(60)
    advance(training, steps)
    return training


def advance(training: tinker.TrainingClient, steps: int) -> None:
    for _ in range(steps):
        training.forward_backward([supervised()], "cross_entropy")
        training.optim_step(ADAM).result(60)


def likelihood(training: tinker.TrainingClient) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    return logprobs(training.forward([supervised()], "cross_entropy").result(60))[0]


RESUME = """
import sys
import tinker
from tests.conformance.test_checkpoints import advance, likelihood

service = tinker.ServiceClient()
training = service.create_training_client_from_state_with_optimizer(sys.argv[1]).result(60)
assert training.get_info().optimizer_config.model_dump()["step"] == 3
advance(training, 2)
print(*likelihood(training).tolist())
service.close("success").result(10)
"""


def test_another_process_continues_exactly_where_this_one_stopped(
    service: tinker.ServiceClient, server: SpindleServer
) -> None:
    training = trained(service, 3)
    path = training.save_state("resume").result(60).path
    resumed = subprocess.run(
        [sys.executable, "-c", RESUME, path],
        env=server.client_environment(),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    advance(training, 2)
    assert np.allclose(np.asarray(resumed.stdout.split(), float), likelihood(training), atol=1e-6)


def test_weights_without_the_optimizer_state_start_a_fresh_one(service: tinker.ServiceClient) -> None:
    training = trained(service, 3)
    path = training.save_state("weights-only").result(60).path
    fresh = service.create_training_client_from_state(path).result(60)
    assert np.array_equal(likelihood(fresh), likelihood(training))
    assert fresh.get_info().optimizer_config.model_dump()["step"] == 0
    advance(training, 2)
    advance(fresh, 2)
    assert not np.allclose(likelihood(fresh), likelihood(training), atol=1e-6)


def test_a_name_is_overwritten_only_when_asked(service: tinker.ServiceClient) -> None:
    training = trained(service, 1)
    path = training.save_state("again").result(60).path
    with pytest.raises(tinker.RequestFailedError, match="exists already") as refusal:
        training.save_state("again").result(60)
    assert refusal.value.category is types.RequestErrorCategory.User
    advance(training, 1)
    assert training.save_state("again", overwrite=True).result(60).path == path
    restored = service.create_training_client_from_state_with_optimizer(path).result(60)
    assert restored.get_info().optimizer_config.model_dump()["step"] == 2


def test_the_wrong_kind_and_a_missing_state_are_refused(service: tinker.ServiceClient) -> None:
    training = trained(service, 1)
    snapshot = training.save_weights_for_sampler("snapshot").result(60).path
    with pytest.raises(tinker.RequestFailedError, match="sampler snapshot"):
        service.create_training_client_from_state_with_optimizer(snapshot).result(60)
    with pytest.raises(tinker.RequestFailedError, match="There is no checkpoint"):
        service.create_training_client_from_state(f"tinker://{training.model_id}/weights/none").result(60)


def test_kill_9_keeps_checkpoints_and_old_promises_fail_at_once(mortal: SpindleServer) -> None:
    service = tinker.ServiceClient(base_url=mortal.url, api_key=mortal.key)
    training = trained(service, 2)
    expected = likelihood(training)
    path = training.save_state("before").result(60).path
    snapshot = training.save_weights_for_sampler("before").result(60).path
    key, url = mortal.key, mortal.url
    pending = training.forward_backward(slow(1000), "cross_entropy")
    behind = training.optim_step(ADAM)
    time.sleep(0.5)
    mortal.kill()
    mortal.start()
    assert (mortal.key, mortal.url) == (key, url)
    begun = time.monotonic()
    for future in (pending, behind):
        with pytest.raises(tinker.RequestFailedError, match="Spindle was restarted") as failure:
            future.result(60)
        assert f"create_training_client_from_state_with_optimizer('{path}')" in str(failure.value)
        assert failure.value.category is types.RequestErrorCategory.Server
    assert time.monotonic() - begun < 45
    begun = time.monotonic()
    with pytest.raises(tinker.RequestFailedError, match="Spindle was restarted"):
        training.optim_step(ADAM).result(60)
    assert time.monotonic() - begun < 2
    session = training.model_id.partition(":")[0]
    beat = httpx.post(
        f"{mortal.url}/api/v1/session_heartbeat", json={"session_id": session}, headers={"X-API-Key": key}
    )
    assert beat.status_code == 410
    again = tinker.ServiceClient(base_url=mortal.url, api_key=mortal.key)
    restored = again.create_training_client_from_state_with_optimizer(path).result(60)
    assert np.array_equal(likelihood(restored), expected)
    sampler = again.create_sampling_client(model_path=snapshot).result(60)
    scored = sampler.compute_logprobs(types.ModelInput.from_ints(TEXT)).result(60)
    assert np.allclose(np.asarray(scored[1:], float), expected, atol=1e-4)
    for client in (service, again):
        client.close("success").result(10)


def test_kill_9_during_saves_shows_whole_checkpoints_only(mortal: SpindleServer) -> None:
    service = tinker.ServiceClient(base_url=mortal.url, api_key=mortal.key)
    training = trained(service, 1)
    expected = likelihood(training)
    saves = [training.save_state(f"state-{number}") for number in range(16)]
    saves[3].result(60)
    mortal.kill()
    mortal.start()
    done = [number for number, save in enumerate(saves) if save.future().done() and not save.future().exception()]
    again = tinker.ServiceClient(base_url=mortal.url, api_key=mortal.key)
    found = []
    for number in range(16):
        path = f"tinker://{training.model_id}/weights/state-{number}"
        try:
            restored = again.create_training_client_from_state_with_optimizer(path).result(60)
        except tinker.RequestFailedError as error:
            assert "There is no checkpoint" in str(error)
            continue
        assert np.array_equal(likelihood(restored), expected)
        found.append(number)
    assert set(done) <= set(found)
    assert found == list(range(len(found)))
    for save in saves:
        save.future().exception(60)
    for client in (service, again):
        client.close("success").result(10)


def test_stopping_in_the_middle_of_a_step_takes_seconds(mortal: SpindleServer) -> None:
    service = tinker.ServiceClient(base_url=mortal.url, api_key=mortal.key)
    training = trained(service, 1)
    pending = training.forward_backward(slow(1000), "cross_entropy")
    time.sleep(1.0)
    assert mortal.stop() < 12
    assert mortal.status == 0
    assert "Traceback" not in mortal.log
    mortal.start()
    with pytest.raises(tinker.RequestFailedError, match=r"shutting down|this training run has no saved state"):
        pending.result(60)
    service.close("success").result(10)
