"""What the page of a complete run shows beside its outcome: all that the verdict rests on (R-220, R-221)."""

import json
from pathlib import Path

import pytest

from research_exchange.bundles import VerificationStatus, verify
from tests.research_exchange.rules import audited_run
from tests.research_exchange.rules.honest_run import BASELINE, TREATMENT, honest_run
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import Served, get
from tests.web.conftest import Browser, Reporter
from tests.web.replaying import replay


@pytest.fixture(scope="module")
def honest(server: Served) -> Reporter:
    return replay(server, honest_run())


def test_a_decision_says_how_the_items_came_out(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    assert browser.text(".outcome.supported .verdict") == "Supported"
    assert "110 wins, 77 losses, 1,132 ties" in browser.text(".criterion")
    numbers = browser.text("#decision table")
    assert f"metrics.arms.{TREATMENT}.accuracy 0.6899 4 0.6899 recomputed" in numbers
    assert browser.complaints() == []


def test_a_number_that_its_rows_do_not_give_is_said_to_be_so(browser: Browser, server: Served) -> None:
    """R-068, R-215."""
    reporter = Reporter(server)
    reporter.train(1)
    reporter.finish(150, metrics={"arms": {"trained": {"accuracy": 0.99}, "untrained": {"accuracy": 0.0}}})
    browser.open(reporter.page)
    row = next(row.text for row in browser.all("#decision tbody tr") if "trained.accuracy" in row.text)
    assert "0.99" in row and "0.75 not what its rows give" in " ".join(row.split())


def test_the_arms_of_a_group_stand_side_by_side(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    assert [cell.text for cell in browser.all("#starts thead th")] == ["", BASELINE, TREATMENT]
    rows = {row.find_element("css selector", "th").text: row for row in browser.all("#starts tbody tr")}
    alike = rows["adapter hash"].find_elements("css selector", ".state.good code")
    assert len(alike) == 2 and alike[0].get_attribute("title") == alike[1].get_attribute("title")
    assert rows["loaded checkpoint"].text.count("unknown") == 2, "nothing was loaded, and nothing is made up"
    assert "after creation: adamw" in rows["optimizer found"].text
    links = rows["shown by"].find_elements("css selector", "a")
    assert {link.text for link in links} == {"initialization.json", "optimizer.json"}


def test_arms_that_started_differently_are_shown_so(browser: Browser, server: Served) -> None:
    document = honest_run()
    arms = document["updates"][1]["initialization_provenance"]["arms"]
    arms[1]["initialization"]["adapter_sha256"] = "9" * 64
    del arms[1]["initial_output"]
    browser.open(replay(server, document).page)
    rows = {row.find_element("css selector", "th").text: row for row in browser.all("#starts tbody tr")}
    assert len(rows["adapter hash"].find_elements("css selector", ".state.bad")) == 2
    assert "unknown" in rows["first output"].text
    assert "R-095" in browser.text("#gates")


def test_measured_errors_stand_beside_what_is_allowed(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    table = browser.text("#correctness table")
    assert "gs1_advantage_rl_loss reference gradient 5e−07 3.5e−05 1 0.9999 passed" in table
    assert "did not measure them itself" in browser.text("#correctness")


def test_what_the_spec_does_not_ask_for_is_left_out(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    assert browser.all("#batches, #audit, a[href='#batches'], a[href='#audit']") == []


def test_a_projection_stands_beside_its_budget(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    assert "71.98 of 150 minutes" in browser.text("#budget")
    assert "fits" in browser.text("#budget .lead")


def test_an_evaluator_says_what_it_is_made_of(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    panel = browser.one("#evaluators .card")
    assert "1319 by name" in panel.text
    panel.find_element("css selector", "summary").click()
    assert "last_number_v1" in panel.text


def test_an_audit_of_generated_data_is_laid_out(browser: Browser, server: Served) -> None:
    spec = {**scenarios.spec(), **{key: value for key, value in audited_run.SPEC.items() if key != "arms"}}
    reporter = Reporter(server, spec)
    for file in audited_run.FILES:
        reporter.upload(file.name, file.read(), file.kind)
    reporter.update(audited_run.running(audited_run.REPORT))
    browser.open(reporter.page)
    audit = browser.text("#audit")
    for name, count in audited_run.REPORT["counts"].items():
        assert f"{name.replace('_', ' ')} {count}" in audit
    assert len(browser.all("#audit a[href*='/evidence/']")) == 3


@pytest.mark.parametrize("selector", ["#gates .problems a", "#gates td > a"])
def test_a_problem_leads_to_the_exact_input(browser: Browser, server: Served, selector: str) -> None:
    """R-221."""
    reporter = Reporter(server)
    reporter.update(scenarios.calibration(reward=0.0))
    browser.open(reporter.page)
    link = next(link for link in browser.all(selector) if "/updates/" in str(link.get_attribute("href")))
    named = link.text
    browser.follow(link)
    assert browser.text("h1") == "Update 1"
    target = browser.one(":target")
    expected = '"batch_mean_reward": 0.0' if selector == "#gates .problems a" else '"activation_calibration": {'
    assert target.text == expected, named


def test_the_spec_of_a_run_has_a_line_for_every_place(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    link = next(link for link in browser.all("#gates td > a") if link.text == "the spec")
    browser.follow(link)
    assert browser.text("h1") == "The spec, line by line"
    assert browser.one(":target").text.startswith('"correctness_preflight": {')


def test_the_brief_is_shown_as_it_was_given(browser: Browser, honest: Reporter, server: Served) -> None:
    """R-051."""
    browser.open(honest.page)
    browser.follow("#sessions a")
    given = get(f"{server.url}/api/runs/{honest.id}/brief")
    shown = browser.run("return document.querySelector('pre.document').textContent")
    assert shown == given.text
    assert given.headers["etag"].strip('"') in browser.text()


def test_the_course_of_a_run_is_told_in_order(browser: Browser, honest: Reporter) -> None:
    browser.open(honest.page)
    events = [entry.text for entry in browser.all(".course li")]
    places = [
        next(place for place, text in enumerate(events) if words in text)
        for words in ("created", "session 1 began", f"arm {BASELINE} completed", "final update", "outcome 1 recorded")
    ]
    assert places == sorted(places)


def test_a_run_can_be_taken_home_and_verified(
    honest: Reporter, server: Served, browser: Browser, tmp_path: Path
) -> None:
    browser.open(honest.page)
    link = browser.one("#verify a").get_attribute("href")
    assert link == f"{server.url}/api/runs/{honest.id}/bundle"
    assert f"rx verify {honest.id}.zip" in browser.text("#verify")
    (tmp_path / "run.zip").write_bytes(get(link).content)
    assert verify(tmp_path / "run.zip").status is VerificationStatus.VERIFIED


def test_a_long_log_has_pages_of_its_own(browser: Browser, server: Served) -> None:
    reporter = Reporter(server)
    for step in range(1, 105):
        reporter.update(scenarios.progress(step, step / 105))
    browser.open(reporter.page)
    assert len(browser.all("#updates tbody tr")) == 12
    points = browser.one("#metrics polyline").get_attribute("points")
    assert points is not None and len(points.split()) == 104
    browser.follow("#updates .pages a")
    assert len(browser.all("tbody tr")) == 100
    browser.follow("a[rel=next]")
    assert [row.text.split()[0] for row in browser.all("tbody tr")] == ["4", "3", "2", "1"]
    twin = get(f"{reporter.page}/updates.json?offset=100").json()
    assert [row["sequence"] for row in twin["updates"]] == [4, 3, 2, 1]
    assert (twin["total"], twin["next"]) == (104, None)


def test_more_metrics_than_anybody_reads_are_counted(browser: Browser, server: Served) -> None:
    reporter = Reporter(server)
    reporter.update({"status": "running", "metrics": {f"metric-{number:03}": number for number in range(75)}})
    browser.open(reporter.page)
    assert len(browser.all("#metrics tbody tr")) == 60
    assert "And 15 metrics more" in browser.text("#metrics")
    assert len(get(f"{reporter.page}.json").json()["state"]["metrics"]) == 75


def test_runs_can_be_chosen_by_where_they_stand_and_by_spec(browser: Browser, server: Served) -> None:
    reporter = Reporter(server, scenarios.spec(title="Chosen by its spec"))
    reporter.finish(150)
    spec_id = get(f"{server.url}/api/runs/{reporter.id}").json()["spec_id"]
    browser.open(f"{server.url}/?spec={spec_id}")
    assert len(browser.all("tbody tr")) == 1
    browser.follow(".choices a[href$='state=running']")
    assert "No run stands like that here." in browser.text()
    browser.follow(".choices a[href$='state=finished']")
    assert browser.text("tbody td:nth-child(2)") == "finished"
    assert browser.text(".choices [aria-current]") == "finished"
    twin = get(browser.one(".masthead a[href*='json']").get_attribute("href") or "").json()
    assert [(run["id"], run["state"]) for run in twin["runs"]] == [(reporter.id, "finished")]


def test_an_update_that_is_no_json_is_shown_as_it_came_in(browser: Browser, server: Served) -> None:
    reporter = Reporter(server)
    reporter.raw_update(b"\xff<b class=hacked>")
    browser.open(f"{reporter.page}/updates/1")
    assert browser.all("b.hacked") == []
    assert "<b class=hacked>" in browser.text("pre")


@pytest.mark.parametrize("path", ["updates/0", "updates/2", "updates/99999999999", "brief?session=ses_0"])
def test_what_a_run_does_not_have_has_a_page_that_says_so(server: Served, path: str) -> None:
    reporter = Reporter(server)
    reporter.update({"status": "running"})
    answer = get(f"{reporter.page}/{path}")
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text


def test_a_run_that_capacity_stopped_and_that_waits_again_is_no_contradiction(browser: Browser, server: Served) -> None:
    """R-202: its partial outcome stands on record while it goes on."""
    reporter = Reporter(server)
    session = reporter.session()
    block = {"error": "503 capacity exhausted", "comparison_steps_completed": 0, "released_clients": True}
    stopped = {"status": "failed", "verdict": "inconclusive", "outcome_reason": "incomplete_execution"}
    reporter.update({**stopped, "summary": "No machine.", "capacity_block": block})
    reporter.end_session(session, "Capacity exhausted.")
    browser.open(reporter.page)
    assert browser.text(".outcome .verdict") == "Waiting in the queue"
    assert "stopped once, inconclusive" in browser.text(".outcome")
    assert browser.all("[role=alert]") == []
    assert "503 capacity exhausted" in browser.text("#budget")
    assert "queued by" in browser.text("#course")
    reporter.session()
    reporter.update({"status": "running", "summary": "A machine at last."})
    browser.open(reporter.page)
    assert browser.text(".outcome .verdict") == "Running again"
    assert browser.all("[role=alert]") == []


def test_a_legacy_spec_shows_what_is_unknown(browser: Browser, server: Served) -> None:
    """R-212, R-221."""
    spec = scenarios.spec(title="From before features were declared")
    del spec["experiment_features"]
    reporter = Reporter(server, spec)
    reporter.update({"status": "running", "summary": "begun"})
    browser.open(reporter.page)
    assert browser.text("#gates").count("unknown") >= 5
    assert json.loads(get(f"{reporter.page}.json").text)["judgment"]["recorded_verdict"] is None
