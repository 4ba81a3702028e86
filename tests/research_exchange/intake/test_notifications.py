"""Hooks are told when a run ends and when a gate fails: signed, until they took it, and without showing a secret."""

import hashlib
import hmac
import ipaddress
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from research_exchange.server import ApiError, Exchange, notifications
from research_exchange.server.access import FIRST_ADMIN
from research_exchange.server.ideas import IdeaText
from research_exchange.server.notifications import PAUSES
from research_exchange.server.outgoing import Address
from research_exchange.server.outside import Outside
from research_exchange.server.slack import SLACK, SlackSettings
from research_exchange.server.slack_api import SlackApi
from research_exchange.store import HookKind, HookRecord, LaunchMode, RandomIdentifiers, RunnerKind, Store
from research_exchange.web import create_app
from tests.research_exchange.access.test_tokens import SetClock
from tests.research_exchange.access.tls_service import PUBLIC, Reply, Request, service
from tests.research_exchange.intake.slack_service import BOT_TOKEN, SlackService, slack_service
from tests.research_exchange.intake.test_slack import eventually
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json
from tests.research_exchange.server.serving import NO_TLS, in_thread

HOST = "hooks.example"
URL = f"https://{HOST}/services/T0/s3cret-path?key=s3cret-key"
SECRET_NAME, SECRET = "RX_HOOK_TEST", "a-secret-of-the-hook"


@dataclass
class Receiver:
    """A webhook's receiver, which answers what it is told to and then 204."""

    requests: list[Request]
    answers: list[int]

    def handle(self, _: Request) -> Reply:
        return Reply(self.answers.pop(0) if self.answers else 204)

    def messages(self) -> list[Json]:
        return [json.loads(request.body) for request in self.requests]


@dataclass
class Told:
    """An Exchange with a hook, of which nothing is sent before it is told to."""

    data: Path
    exchange: Exchange
    clock: SetClock
    receiver: Receiver
    outside: Outside

    def hook(self, *events: str) -> HookRecord:
        events = events or ("run.ended",)
        return self.exchange.hooks.add(HookKind.WEBHOOK, FIRST_ADMIN, url=URL, secret=SECRET_NAME, events=events)

    def run(self, **origin: str) -> str:
        raw = scenarios.encode(scenarios.spec(**({"title": "Sums & <carries>"} if not origin else {})))
        spec = self.exchange.versions.register(raw, FIRST_ADMIN, idea_id=origin.get("idea")).spec
        return self.exchange.runs.create(spec.id, LaunchMode.ORDINARY, "admin").id

    def fail(self, run_id: str) -> None:
        self.exchange.updates.post(run_id, scenarios.encode({"status": "failed", "summary": "It broke."}))

    def send(self) -> int:
        return self.exchange.notifications.send_due()

    def statuses(self, hook: HookRecord) -> list[tuple[str, str, int, str]]:
        deliveries, _ = self.exchange.hooks.deliveries(hook.id, 100, 0)
        return [(each.event, each.status.value, each.attempts, each.detail) for each in reversed(deliveries)]


@contextmanager
def telling(data: Path, slack: SlackSettings | None = None, clock: SetClock | None = None) -> Iterator[Told]:
    receiver = Receiver([], [])
    clock = clock or SetClock()
    with service(receiver.handle, HOST) as served:
        receiver.requests = served.requests
        outside = Outside(
            slack=slack or SlackSettings(),
            network=served.network,
            public_url="https://exchange.example",
            hook_secrets={SECRET_NAME: SECRET},
        )
        store = Store.open(data)
        told = Told(data, Exchange(store, clock, RandomIdentifiers(), outside), clock, receiver, outside)
        yield told
        told.exchange.judging.close()
        store.close()


@pytest.fixture
def told(data: Path) -> Iterator[Told]:
    with telling(data) as made:
        yield made


def test_a_webhook_is_told_of_a_runs_end_with_a_signature(told: Told) -> None:
    hook, run = told.hook(), told.run()
    told.fail(run)
    assert told.receiver.requests == []
    assert told.send() == 1
    request, message = told.receiver.requests[0], told.receiver.messages()[0]
    found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", request.headers["x-exchange-signature"])
    assert found is not None and int(found[1]) == int(told.clock().timestamp())
    signed = hmac.new(SECRET.encode(), f"{found[1]}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert signed == found[2]
    assert request.headers["x-exchange-event"] == message["event"] == "run.ended"
    assert request.headers["x-exchange-delivery"] == message["delivery"] == f"{hook.id}/1"
    assert request.path == "/services/T0/s3cret-path?key=s3cret-key"
    assert (message["run"], message["title"], message["verdict"]) == (run, "Sums & <carries>", "inconclusive")
    assert message["page"] == f"https://exchange.example/runs/{run}"
    assert message["text"].startswith("Run ended, inconclusive (") and message["page"] in message["text"]
    assert told.statuses(hook) == [("run.ended#1", "delivered", 1, "answered 204")]
    assert told.send() == 0


def test_what_is_not_taken_is_sent_again_with_growing_pauses_and_given_up_in_the_end(told: Told) -> None:
    hook = told.hook()
    told.fail(told.run())
    told.receiver.answers = [500, 302, 429, *[503] * 20]
    details = []
    for attempt, pause in enumerate([*PAUSES, timedelta(days=30)], start=1):
        assert told.send() == 1
        ((_, status, attempts, detail),) = told.statuses(hook)
        assert (status, attempts) == ("failed" if attempt > len(PAUSES) else "pending", attempt)
        details.append(detail)
        told.clock.now += pause - timedelta(seconds=1)
        assert told.send() == 0
        told.clock.now += timedelta(seconds=1)
    assert details[:4] == ["answered 500", "answered 302", "answered 429", "answered 503"]
    assert told.send() == 0
    assert len({request.headers["x-exchange-delivery"] for request in told.receiver.requests}) == 1


def test_a_later_attempt_arrives(told: Told) -> None:
    hook = told.hook()
    told.fail(told.run())
    told.receiver.answers = [500]
    told.send()
    told.clock.now += PAUSES[0]
    told.send()
    assert told.statuses(hook) == [("run.ended#1", "delivered", 2, "answered 204")]


def test_messages_that_wait_stand_before_none_that_is_due(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that was away for a while gets the others at once, and not when the first ones are given up."""
    monkeypatch.setattr(notifications, "MAX_AT_ONCE", 2)
    hook = told.hook()
    for _ in range(3):
        told.fail(told.run())
    told.receiver.answers = [500, 500]
    assert told.send() == 2
    told.clock.now += timedelta(seconds=1)
    assert told.send() == 1
    assert sorted(status for _, status, *_ in told.statuses(hook)) == ["delivered", "pending", "pending"]


def test_a_clock_that_was_set_back_keeps_no_message_waiting(told: Told) -> None:
    hook = told.hook()
    told.fail(told.run())
    told.receiver.answers = [500]
    told.send()
    told.clock.now -= timedelta(days=400)
    assert told.send() == 1
    assert told.statuses(hook)[0][1] == "delivered"


def test_what_was_not_sent_when_the_server_was_killed_is_sent_by_the_next_one(data: Path) -> None:
    clock = SetClock()
    with telling(data, clock=clock) as before:
        before.hook()
        run = before.run()
        before.fail(run)
        assert before.receiver.requests == []
    with telling(data, clock=clock) as after:
        assert after.send() == 1
        assert after.receiver.messages()[0]["run"] == run


def test_a_failed_gate_is_told_once_however_often_the_run_is_judged(told: Told) -> None:
    hook, run = told.hook("run.ended", "gate.failed"), told.run()
    told.exchange.updates.post(run, scenarios.encode(scenarios.calibration(reward=0.001)))
    for step in range(2):
        told.exchange.judging.judged(told.exchange.view(run))
        eventually(lambda: told.statuses(hook))
        told.exchange.updates.post(run, scenarios.encode(scenarios.progress(step, 0.1)))
    assert [event for event, *_ in told.statuses(hook)] == ["gate.failed#activation_gate"]
    told.fail(run)
    told.send()
    said = [message["text"].partition(":")[0] for message in told.receiver.messages()]
    assert said[0] == "Gate activation_gate failed"
    assert [event for event, *_ in told.statuses(hook)] == ["gate.failed#activation_gate", "run.ended#1"]


def test_a_gate_that_fails_while_the_run_goes_on_is_told_without_anybody_asking(told: Told) -> None:
    ends = told.hook("run.ended")
    run = told.run()
    told.exchange.sessions.begin(run, RunnerKind.SCRIPT, None)
    told.exchange.updates.post(run, scenarios.encode(scenarios.calibration(reward=0.001)))
    told.exchange.notifications.look_at_gates()
    assert told.exchange.judging.made == 0, "nobody wants to hear of gates"
    gates = told.hook("gate.failed")
    for _ in range(2):
        told.exchange.notifications.look_at_gates()
    assert told.exchange.judging.made == 1
    eventually(lambda: told.statuses(gates))
    assert [event for event, *_ in told.statuses(gates)] == ["gate.failed#activation_gate"]
    assert told.statuses(ends) == []
    told.exchange.updates.post(run, scenarios.encode(scenarios.progress(1, 0.1)))
    told.exchange.notifications.look_at_gates()
    told.exchange.judging.close()
    assert (told.exchange.judging.made, len(told.statuses(gates))) == (2, 1)


def test_a_dead_runners_end_is_told_as_well(told: Told) -> None:
    hook, run = told.hook(), told.run()
    session = told.exchange.sessions.begin(run, RunnerKind.SCRIPT, None).session
    told.exchange.sessions.end(run, session, 137, "the command was killed")
    assert [event for event, *_ in told.statuses(hook)] == ["run.ended#1"]


def test_a_hook_hears_of_its_own_events_and_of_nothing_after_it_was_removed(told: Told) -> None:
    gates, ends, removed = told.hook("gate.failed"), told.hook("run.ended"), told.hook()
    first = told.run()
    told.fail(first)
    told.exchange.hooks.remove(removed.id, FIRST_ADMIN)
    assert told.send() == 3
    assert told.statuses(gates) == [("gate.failed#activation_gate", "delivered", 1, "answered 204")]
    assert told.statuses(ends) == [("run.ended#1", "delivered", 1, "answered 204")]
    assert told.statuses(removed) == [("run.ended#1", "failed", 1, "the hook was removed")]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"])
def test_a_name_that_leads_into_a_private_network_is_told_nothing(told: Told, address: str) -> None:
    hook, run = told.hook(), told.run()
    there: Callable[[str], list[Address]] = lambda _: [PUBLIC, ipaddress.ip_address(address)]  # noqa: E731
    outside = replace(told.outside, network=replace(told.outside.network, resolve=there))
    told.exchange = Exchange(told.exchange.store, told.clock, RandomIdentifiers(), outside)
    told.fail(run)
    told.send()
    assert told.receiver.requests == []
    assert told.statuses(hook)[0][1:] == ("pending", 1, "hooks.example is not a public address")


def test_a_secret_that_is_gone_is_said_to_be_gone(told: Told) -> None:
    hook, run = told.hook(), told.run()
    outside = replace(told.outside, hook_secrets={})
    told.exchange = Exchange(told.exchange.store, told.clock, RandomIdentifiers(), outside)
    told.fail(run)
    told.send()
    assert told.statuses(hook)[0][3] == "RX_HOOK_TEST is not set in the server's environment"


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        (None, SECRET_NAME),
        (URL, None),
        (URL, "RX_HOOK_ABSENT"),
        (URL, "RX_ADMIN_TOKEN"),
        (URL, "rx_hook_test"),
        ("http://hooks.example/", SECRET_NAME),
        ("https://user:word@hooks.example/", SECRET_NAME),
        ("https://hooks.example/#part", SECRET_NAME),
        ("https://127.0.0.1/", SECRET_NAME),
        ("https://[::1]/", SECRET_NAME),
        ("https://localhost/", SECRET_NAME),
        ("https://hooks.example:99999/", SECRET_NAME),
        ("https://[broken/", SECRET_NAME),
        ("file:///etc/passwd", SECRET_NAME),
    ],
)
def test_a_hook_that_cannot_be_told_safely_is_refused(told: Told, url: str | None, secret: str | None) -> None:
    with pytest.raises(ApiError) as refused:
        told.exchange.hooks.add(HookKind.WEBHOOK, FIRST_ADMIN, url=url, secret=secret)
    assert refused.value.status == 422
    assert told.exchange.hooks.page(50, 0) == ([], 0)


def test_private_networks_are_told_where_somebody_says_so(told: Told) -> None:
    outside = Outside.from_environment({"RX_HOOKS_PRIVATE": "1", SECRET_NAME: SECRET, "OTHER": "x"})
    assert outside.hook_secrets == {SECRET_NAME: SECRET}
    told.exchange = Exchange(told.exchange.store, told.clock, RandomIdentifiers(), outside)
    receiver = Receiver([], [])
    with service(receiver.handle, tls=False) as served:
        url = f"http://127.0.0.1:{served.port}/hook"
        told.exchange.hooks.add(HookKind.WEBHOOK, FIRST_ADMIN, url=url, secret=SECRET_NAME, events=["run.ended"])
        told.fail(told.run())
        told.send()
        assert [request.path for request in served.requests] == ["/hook"]


@contextmanager
def telling_slack(data: Path) -> Iterator[tuple[Told, SlackService]]:
    with slack_service() as slack, telling(data, SlackSettings("x", SlackApi(BOT_TOKEN, slack.url))) as told:
        yield told, slack


def test_the_message_of_a_runs_idea_gets_a_reply(data: Path) -> None:
    with telling_slack(data) as (told, slack):
        hook = told.exchange.hooks.add(HookKind.SLACK, FIRST_ADMIN, events=["run.ended"])
        idea = told.exchange.ideas.add(IdeaText("An idea"), SLACK, source_key="slack:T1:C1:1700000000.000100").idea
        told.fail(told.run())
        run = told.run(idea=idea.record.id)
        told.fail(run)
        slack.refuses = ["ratelimited"]
        told.send()
        assert told.statuses(hook) == [("run.ended#1", "pending", 1, "Slack refused: ratelimited")]
        told.clock.now += PAUSES[0]
        told.send()
        assert told.statuses(hook) == [("run.ended#1", "delivered", 2, "replied")]
        (reply,) = slack.replies
        assert (reply["channel"], reply["thread_ts"]) == ("C1", "1700000000.000100")
        assert run in reply["text"]
        with pytest.raises(ApiError):
            told.exchange.hooks.add(HookKind.SLACK, FIRST_ADMIN, url=URL)


def test_slack_away_is_waited_for(data: Path) -> None:
    with telling_slack(data) as (told, _):
        settings = SlackSettings("x", SlackApi(BOT_TOKEN, "http://127.0.0.1:9/api/"))
        told.exchange = Exchange(
            told.exchange.store, told.clock, RandomIdentifiers(), replace(told.outside, slack=settings)
        )
        hook = told.exchange.hooks.add(HookKind.SLACK, FIRST_ADMIN)
        idea = told.exchange.ideas.add(IdeaText("An idea"), SLACK, source_key="slack:T1:C1:1.1").idea
        told.fail(told.run(idea=idea.record.id))
        told.send()
        assert told.statuses(hook)[-1][1:3] == ("pending", 1)
        assert told.statuses(hook)[-1][3].startswith("Slack was not reached: ")


def test_no_secret_of_a_hook_is_shown_kept_or_logged(
    told: Told, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    app = create_app(told.data, outside=told.outside)
    with in_thread(app) as url:
        http = httpx.Client(base_url=url, timeout=60, verify=NO_TLS)
        admin = Caller(http, (told.data / "admin-token").read_text().strip())
        body: Json = {"kind": "webhook", "url": URL, "secret": SECRET_NAME}
        hook = admin.post("/api/hooks", body).json()
        assert (hook["url"], hook["secret"]) == ("https://hooks.example/…", SECRET_NAME)
        refused = admin.post("/api/hooks", {**body, "url": f"http://{HOST}/s3cret-path"})
        told.receiver.answers = [500]
        told.fail(told.run())
        eventually(lambda: told.receiver.requests)
        path = f"/api/hooks/{hook['id']}"
        eventually(lambda: admin.get(f"{path}/deliveries").json()["deliveries"][0]["attempts"])
        shown = "".join(admin.get(each).text for each in ("/api/hooks", f"{path}/deliveries", "/api/audit"))
        assert admin.post("/api/hooks", {"kind": "pigeon"}).status_code == 422
        assert admin.get("/api/hooks/hook_0000000000/deliveries").status_code == 404
        gone = admin.http.delete(path, headers={"Authorization": f"Bearer {admin.token}"})
        assert gone.json()["removed_at"] is not None
        assert admin.get("/api/hooks").json()["hooks"] == []
        http.close()
    told_of = "".join([shown, refused.text, caplog.text, *capfd.readouterr()])
    assert all(secret not in told_of for secret in ("s3cret", SECRET, BOT_TOKEN))
    kept = b"".join(each.read_bytes() for each in told.data.rglob("*") if each.is_file())
    assert SECRET.encode() not in kept
