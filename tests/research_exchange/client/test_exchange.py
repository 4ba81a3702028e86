"""A researcher's side: ideas, versions, runs, tokens and the audit log, against a real Exchange."""

import json
import threading
import time
from itertools import islice

import pytest

from research_exchange.client import Exchange, ExchangeRefused, Run
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.client.specs import SPEC


def test_an_idea_becomes_a_draft_and_a_version_that_knows_its_idea(exchange: Exchange) -> None:
    idea = exchange.add_idea("One rollout", summary="Does one rollout do?", triage="Worth a day.")
    assert exchange.revise_idea(idea["id"], triage=None)["triage"] is None
    assert [snapshot["triage"] for snapshot in exchange.idea(idea["id"])["snapshots"]] == ["Worth a day.", None]
    said = exchange.snapshots(idea["id"], limit=1)
    assert ([each["number"] for each in said["snapshots"]], said["total"], said["next"]) == ([1], 2, 1)
    assert idea["id"] in [each["id"] for each in exchange.ideas()["ideas"]]
    draft = exchange.draft(idea["id"])
    assert (draft["spec"]["title"], draft["spec"]["hypothesis"]) == ("One rollout", "Does one rollout do?")
    assert draft["lint"]
    version = exchange.register(json.dumps({**SPEC, "title": "One rollout"}).encode(), idea_id=idea["id"])
    child = exchange.register(json.dumps({**SPEC, "title": "Two rollouts"}).encode(), parent=version)
    assert exchange.about_spec(version)["idea"] == idea["id"]
    assert exchange.about_spec(child)["parent"] == version
    assert [each["id"] for each in exchange.specs(idea_id=idea["id"])["specs"]] == [child, version]
    assert {"R-14B"} <= {finding["rule"] for finding in exchange.lint(version)}
    assert exchange.brief(version, profile="tinker")["brief"].count("One rollout") > 0


def test_a_spec_with_errors_is_refused_with_each_of_them(exchange: Exchange) -> None:
    with pytest.raises(ExchangeRefused, match="R-030") as refused:
        exchange.register(b'{"title": "Nothing else"}')
    assert len(refused.value.problems) > 3
    assert exchange.register(b'{"title": "Nothing else"}', legacy=True).startswith("exp_")


def test_runs_are_listed_a_page_at_a_time_and_by_where_they_stand(exchange: Exchange, run: Run) -> None:
    spec_id = exchange.register(json.dumps({**SPEC, "title": "Listed"}).encode())
    runs = [exchange.create_run(spec_id) for _ in range(3)]
    runs[0].finish(outcome_reason="incomplete_execution")
    first = exchange.runs_page(limit=2, spec_id=spec_id)
    assert (first["total"], first["next"]) == (3, 2)
    rest = exchange.runs_page(limit=2, offset=first["next"], spec_id=spec_id)
    assert [each["id"] for each in first["runs"] + rest["runs"]] == [each.id for each in reversed(runs)]
    assert rest["next"] is None
    (finished,) = exchange.runs(spec_id=spec_id, state="finished")
    assert (finished["id"], finished["recorded_verdict"]) == (runs[0].id, "inconclusive")
    assert run.id not in [each["id"] for each in exchange.runs(spec_id=spec_id)]


def test_updates_are_listed_a_page_at_a_time_in_the_order_in_which_they_came(exchange: Exchange, run: Run) -> None:
    for step in range(3):
        run.metric(step=step)
    first = exchange.updates(run.id, limit=2)
    assert (first["total"], first["next"]) == (3, 2)
    rest = exchange.updates(run.id, limit=2, offset=first["next"])
    assert [each["sequence"] for each in first["updates"] + rest["updates"]] == [1, 2, 3]
    assert (run.record()["updates"], rest["next"]) == (first["updates"] + rest["updates"], None)


def test_a_researchers_token_starts_runs_until_it_is_revoked(served: ServedExchange, exchange: Exchange) -> None:
    given = exchange.give_token("researcher", "Ada", days=1)
    ada = Exchange(served.url, given["token"], patience=5)
    created = ada.create_run(ada.register(json.dumps(SPEC).encode()))
    assert given["id"] in [entry["actor"] for entry in exchange.audit(subject=created.id)["audit"]]
    assert given["token"] not in json.dumps(exchange.tokens())
    assert exchange.revoke_token(given["id"])["revoked_at"]
    with pytest.raises(ExchangeRefused) as refused:
        ada.register(json.dumps({**SPEC, "title": "Too late"}).encode())
    assert refused.value.status == 401


def test_a_run_waits_for_a_worker_that_claims_it_and_its_runner_hears_that_it_is_cancelled(exchange: Exchange) -> None:
    waiting = exchange.create_run(exchange.register(json.dumps(SPEC).encode()), queue=True)
    assert waiting.id in [entry["run"] for entry in exchange.queue()["queue"]]
    claimed = exchange.claim()
    assert claimed is not None
    assert claimed.id == waiting.id
    session = claimed.begin_session(runner="local")
    assert claimed.beat(session)["cancelled"] is False
    exchange.cancel(claimed.id, "Not needed any more.")
    answer = claimed.beat(session)
    assert (answer["cancelled"], answer["reason"]) == (True, "Not needed any more.")


def test_events_of_a_run_that_is_not_there_are_refused(exchange: Exchange) -> None:
    with pytest.raises(ExchangeRefused):
        next(exchange.events("run_0000000000"))


def test_events_come_as_they_happen_and_are_taken_up_again_after_any_of_them(exchange: Exchange, run: Run) -> None:
    run.update(summary="First.")
    run.evidence("notes.txt", "other", "seen")
    early = list(islice(exchange.events(run.id), 2))
    assert [event.kind for event in early] == ["update", "evidence"]
    assert early[0].data["document"]["summary"] == "First."
    later = threading.Timer(0.5, run.finish, kwargs={"outcome_reason": "incomplete_execution"})
    later.start()
    began = time.monotonic()
    rest = list(islice(exchange.events(run.id, after=early[1].id), 2))
    assert [event.kind for event in rest] == ["update", "outcome"]
    assert time.monotonic() - began < 20
    later.join()
