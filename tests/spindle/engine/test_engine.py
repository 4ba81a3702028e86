import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from spindle.backends.contract import UserError
from spindle.engine import Work, refusal
from spindle.engine.ordering import OrderedQueue
from tests.spindle.engine.bench import TIMING, Bench, prompt, settle, step, until
from tests.spindle.engine.recording import BROKEN, UNFIT, gradient


def test_commands_run_by_sequence_id_whatever_order_they_arrive_in(bench: Bench) -> None:
    bench.open("m")
    futures = [bench.engine.submit("m", number, gradient("m", f"chunk{number}")) for number in (2, 3, 4, 5)]
    futures.append(bench.engine.submit("m", 6, step("m")))
    time.sleep(0.1)
    assert bench.backend.calls == []
    assert not any(future.done() for future in futures)
    settle(*futures, bench.engine.submit("m", 1, gradient("m", "chunk1")))
    assert bench.backend.calls == [*(f"gradient m/chunk{number}" for number in (1, 2, 3, 4, 5)), "step m"]


def test_one_thread_owns_the_backend(bench: Bench) -> None:
    bench.open("a", "b")
    settle(
        bench.engine.submit("a", 1, step("a")), bench.engine.sample(prompt()), bench.engine.submit("b", 1, step("b"))
    )
    assert len(bench.backend.threads) == 1
    assert threading.get_ident() not in bench.backend.threads


def test_a_refused_request_takes_its_place_and_the_rest_goes_on(bench: Bench) -> None:
    bench.open("m")
    later = bench.engine.submit("m", 2, step("m"))
    refused = bench.engine.submit("m", 1, refusal(UserError("rank is -1; expected at least 1.")))
    settle(later, refused)
    with pytest.raises(UserError, match="rank is -1"):
        refused.result()
    assert bench.backend.calls == ["step m"]


def test_a_bad_request_and_a_crash_fail_their_own_promise_only(bench: Bench) -> None:
    bench.open("m")
    bad = bench.engine.submit("m", 1, gradient("m", "bad"))
    broken = bench.engine.submit("m", 2, gradient("m", "broken"))
    good = bench.engine.submit("m", 3, gradient("m"))
    settle(bad, broken, good)
    assert isinstance(bad.exception(), UserError)
    assert isinstance(broken.exception(), RuntimeError)
    assert good.result().metrics == {"loss:sum": 0.0}


def test_a_crash_in_a_shared_pass_is_the_affair_of_the_model_that_caused_it(bench: Bench) -> None:
    bench.open("a", "b", "c")
    bench.blocked()
    futures = [
        bench.engine.submit("a", 1, gradient("a")),
        bench.engine.submit("b", 1, gradient("b", "broken")),
        bench.engine.submit("c", 1, gradient("c", "bad")),
    ]
    bench.backend.hold.set()
    settle(*futures)
    assert futures[0].result().metrics == {"loss:sum": 0.0}
    with pytest.raises(RuntimeError, match="out of memory"):
        futures[1].result()
    with pytest.raises(UserError, match="bad loss"):
        futures[2].result()


def test_a_backend_that_forgets_a_result_fails_the_promise_and_the_engine_goes_on(bench: Bench) -> None:
    bench.open("m")
    forgotten = bench.engine.submit("m", 1, gradient("m", "forgotten"))
    with pytest.raises(ValueError, match="shorter"):
        forgotten.result(5)
    bench.engine.submit("m", 2, gradient("m")).result(5)


def test_an_id_that_ran_is_not_run_again(bench: Bench) -> None:
    bench.open("m")
    settle(bench.engine.submit("m", 1, step("m")))
    with pytest.raises(UserError, match="Request 1 of training run m had its turn already"):
        bench.engine.submit("m", 1, step("m")).result(5)
    assert bench.backend.calls == ["step m"]


def test_gradients_of_models_that_are_ready_together_share_a_call(bench: Bench) -> None:
    bench.open("a", "b", "c")
    bench.blocked()
    futures = [bench.engine.submit(model_id, 1, gradient(model_id)) for model_id in ("a", "b", "c")]
    bench.backend.hold.set()
    settle(*futures)
    assert bench.backend.calls[1:] == ["gradient a/cross_entropy b/cross_entropy c/cross_entropy"]


def test_models_take_turns(bench: Bench) -> None:
    bench.open("a", "b")
    bench.blocked()
    futures = [bench.engine.submit("a", number, step("a")) for number in (1, 2, 3)]
    futures += [bench.engine.submit("b", number, step("b")) for number in (1, 2, 3)]
    bench.backend.hold.set()
    settle(*futures)
    assert bench.backend.calls[1:] == ["step a", "step b"] * 3


def test_sampling_requests_of_one_step_share_a_batch(bench: Bench) -> None:
    futures = []
    for _ in range(8):
        futures.append(bench.engine.sample(prompt(num_samples=2)))
        time.sleep(0.005)
    settle(*futures)
    assert bench.backend.calls == ["sample " + " ".join(["base"] * 8)]
    assert len(futures[0].result().sequences) == 2


def test_base_models_have_batches_of_their_own_and_take_turns(bench: Bench) -> None:
    bench.blocked()
    futures = [bench.engine.sample(prompt(base, 30, 2)) for base in ("one", "two", "one")]
    bench.backend.hold.set()
    settle(*futures)
    assert bench.backend.calls[1:] == ["sample one one", "sample two"] * 2


def test_a_request_above_the_batch_limit_still_runs(bench: Bench) -> None:
    assert len(bench.engine.sample(prompt(num_samples=200)).result(5).sequences) == 200


def test_training_and_sampling_alternate(bench: Bench) -> None:
    """A slice of sampling is over after one step here: the clock says that each took a second."""
    bench.open("m")
    bench.blocked()
    futures: list[Future[Any]] = [bench.engine.submit("m", number, step("m")) for number in (1, 2, 3)]
    futures.append(bench.engine.sample(prompt(num_samples=64, steps=3)))
    bench.calls_take(step=0.0, sample=1.0)
    bench.backend.hold.set()
    settle(*futures)
    kinds = [call.split()[0] for call in bench.backend.calls[1:]]
    assert kinds == ["sample", "step"] * 3


def test_sampling_gets_as_long_a_turn_as_training_took(bench: Bench) -> None:
    bench.open("m")
    bench.blocked()
    bench.calls_take(step=2.0, sample=0.6)
    futures: list[Future[Any]] = [bench.engine.submit("m", number, step("m")) for number in (1, 2)]
    futures.append(bench.engine.sample(prompt(num_samples=64, steps=8)))
    bench.backend.hold.set()
    settle(*futures)
    kinds = [call.split()[0] for call in bench.backend.calls[1:]]
    assert kinds == [*["sample"] * 4, "step", *["sample"] * 4, "step"]


def test_a_request_joins_the_batch_that_runs(bench: Bench) -> None:
    joined: list[Future[Any]] = []

    def arrive(call: str) -> None:
        if call == "sample base" and not joined:
            joined.append(bench.engine.sample(prompt()))

    bench.backend.each_takes(arrive)
    long = bench.engine.sample(prompt(steps=3))
    settle(long)
    settle(*joined)
    assert bench.backend.calls == ["sample base", "sample base base", "sample base"]


def test_a_running_sample_can_be_cancelled_and_the_others_go_on(bench: Bench) -> None:
    futures: list[Future[Any]] = []
    bench.backend.each_takes(lambda call: call.startswith("sample") and futures[0].cancel())
    bench.blocked()
    futures += [bench.engine.sample(prompt(steps=3)) for _ in range(2)]
    bench.backend.hold.set()
    settle(futures[1])
    assert futures[0].cancelled()
    assert bench.backend.calls[1:] == ["sample base base", "sample base", "sample base"]


def test_a_step_that_breaks_fails_its_batch_and_the_engine_goes_on(bench: Bench) -> None:
    bench.blocked()
    broken = [bench.engine.sample(prompt(steps=3, seed=seed)) for seed in (1, BROKEN)]
    other = bench.engine.sample(prompt("other"))
    bench.backend.hold.set()
    for future in broken:
        with pytest.raises(RuntimeError, match="out of memory"):
            future.result(5)
    settle(other, bench.engine.sample(prompt()))


def test_a_request_that_cannot_join_its_batch_fails_alone(bench: Bench) -> None:
    bench.blocked()
    first, unfit, last = (bench.engine.sample(prompt(steps=3, seed=seed)) for seed in (1, UNFIT, 2))
    bench.backend.hold.set()
    with pytest.raises(RuntimeError, match="no room for its adapter"):
        unfit.result(5)
    settle(first, last)
    assert first.result() and last.result()


def test_a_base_model_that_is_not_served_fails_its_request(bench: Bench) -> None:
    with pytest.raises(UserError, match="no such base model"):
        bench.engine.sample(prompt("none")).result(5)
    bench.engine.sample(prompt()).result(5)


def test_stopping_fails_the_samples_that_run(bench: Bench) -> None:
    running = bench.engine.sample(prompt(steps=1_000_000))
    until(lambda: len(bench.backend.calls) > 1)
    assert bench.engine.stop(5)
    with pytest.raises(UserError, match="shutting down"):
        running.result(0)


def test_training_does_not_wait_for_a_lingering_batch(bench: Bench) -> None:
    bench.open("m")
    sampled = bench.engine.sample(prompt())
    settle(bench.engine.submit("m", 1, step("m")), sampled)
    assert bench.backend.calls == ["step m", "sample base"]


def test_a_gap_fails_what_waits_behind_it_and_the_model_goes_on(bench: Bench) -> None:
    bench.open("m")
    parked = [bench.engine.submit("m", number, step("m")) for number in (2, 3)]
    bench.engine.fail_gaps()
    assert not any(future.done() for future in parked)
    bench.skew = 61.0
    bench.engine.fail_gaps()
    for future in parked:
        with pytest.raises(UserError, match=r"Request 1 of training run m did not arrive within 60 s"):
            future.result(0)
    settle(bench.engine.submit("m", 4, step("m")))
    assert bench.backend.calls == ["step m"]


def test_a_gap_where_a_request_was_refused_is_given_up_sooner_and_elsewhere_it_is_not(bench: Bench) -> None:
    bench.open("m", "n")
    refused, other = (bench.engine.submit(model_id, 2, step(model_id)) for model_id in ("m", "n"))
    bench.engine.hurry(["m", "unknown"])
    bench.skew = TIMING.gap_after_refusal + 1
    bench.engine.fail_gaps()
    with pytest.raises(UserError, match="did not arrive within 30 s"):
        refused.result(0)
    assert not other.done()
    settle(bench.engine.submit("n", 1, step("n")), other)


def test_time_in_which_nothing_could_arrive_is_no_gap(bench: Bench) -> None:
    bench.open("m")
    parked = bench.engine.submit("m", 2, step("m"))
    bench.skew = 61.0
    bench.engine.forgive(61.0)
    bench.engine.fail_gaps()
    assert not parked.done()
    assert bench.engine.next_id("m") == 1
    settle(bench.engine.submit("m", 1, step("m")), parked)
    assert bench.engine.next_id("m") == 3
    assert bench.engine.next_id("unknown") is None


def test_a_stopped_engine_promises_nothing_that_it_cannot_keep(bench: Bench) -> None:
    bench.open("m")
    assert bench.engine.stop(5)
    for future in (bench.engine.submit("m", 1, step("m")), bench.engine.sample(prompt())):
        with pytest.raises(UserError, match="shutting down"):
            future.result(0)


def test_writing_to_disk_lets_other_models_go_on_but_not_its_own(bench: Bench) -> None:
    bench.open("a", "b")
    writing = threading.Event()
    saved = bench.engine.submit("a", 1, Work(lambda _: "staged", lambda staged: (writing.wait(5), staged)[1]))
    after = bench.engine.submit("a", 2, step("a"))
    settle(bench.engine.submit("b", 1, step("b")))
    assert not saved.done()
    assert not after.done()
    writing.set()
    assert saved.result(5) == "staged"
    settle(after)
    assert bench.backend.calls == ["step b", "step a"]


def test_a_failed_write_fails_the_save_and_frees_the_queue(bench: Bench, tmp_path: Path) -> None:
    bench.open("m")
    saved = bench.engine.submit("m", 1, Work(lambda _: None, lambda _: (tmp_path / "no" / "file").write_text("")))
    settle(saved, bench.engine.submit("m", 2, step("m")))
    assert isinstance(saved.exception(), FileNotFoundError)


def test_closing_fails_what_is_queued_and_frees_the_model(bench: Bench) -> None:
    bench.open("m")
    bench.blocked()
    queued = bench.engine.submit("m", 1, step("m"))
    bench.engine.close("m", "the session ended")
    with pytest.raises(UserError, match="the session ended"):
        queued.result(0)
    bench.backend.hold.set()
    until(lambda: "unload m" in bench.backend.calls)
    with pytest.raises(UserError, match="not open"):
        bench.engine.submit("m", 2, step("m")).result(0)


def test_a_cancelled_sample_is_not_computed_but_a_training_command_cannot_be_cancelled(bench: Bench) -> None:
    bench.open("m")
    bench.blocked()
    sampled, trained = bench.engine.sample(prompt()), bench.engine.submit("m", 1, step("m"))
    assert sampled.cancel()
    assert not trained.cancel()
    bench.backend.hold.set()
    settle(trained, bench.engine.sample(prompt()))
    assert [call for call in bench.backend.calls if call.startswith("sample")] == ["sample base"]


def test_models_that_close_while_the_engine_stops_do_not_keep_it_from_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, skip = Bench(), OrderedQueue.skip
    bench.open("a", "b", "c")
    closing = threading.Thread(target=lambda: bench.engine.close("c", "its session ended"))

    def skip_while_another_closes(queue: OrderedQueue[object]) -> list[object]:
        if closing.ident is None:
            closing.start()
            closing.join(0.2)
        return skip(queue)

    monkeypatch.setattr(OrderedQueue, "skip", skip_while_another_closes)
    assert bench.engine.stop(5)
    closing.join(5)
    assert not closing.is_alive()


def test_stopping_fails_what_has_not_run() -> None:
    bench = Bench()
    bench.open("m")
    parked = bench.engine.submit("m", 2, step("m"))
    assert bench.engine.stop(5)
    with pytest.raises(UserError, match="shutting down"):
        parked.result(0)
