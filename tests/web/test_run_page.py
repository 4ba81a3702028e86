"""The page of a run, in a real browser (R-220 to R-224)."""

import json
import time

import pytest

from research_exchange.web.rendering import PAGE_POLICY
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import Served, get
from tests.web.conftest import Browser, Reporter


def _x(browser: Browser, selector: str, attribute: str) -> float:
    value = browser.one(selector).get_attribute(attribute)
    assert value is not None
    return float(value)


def _gates(browser: Browser) -> dict[str, str]:
    """Gate to the text of its row."""
    rows = [row.text for row in browser.all("#gates tbody tr")]
    return {row.split(" required")[0].split(" not applicable")[0]: row for row in rows}


def test_a_supported_run(browser: Browser, server: Served) -> None:
    reporter = Reporter(server)
    reporter.train()
    reporter.finish(150)
    browser.open(reporter.page)
    assert browser.text("h1") == reporter.spec["title"]
    assert browser.text(".outcome.supported .verdict") == "Supported"
    assert browser.text(".outcome .reported .verdict") == "Supported"
    assert "+0.75" in browser.text(".criterion .estimate")
    assert "The whole interval lies above the margin" in browser.text(".criterion")
    assert "says nothing about another training seed" in browser.text("#decision .lead")
    assert _x(browser, "svg .margin", "x1") < _x(browser, "svg .reach", "x1") < _x(browser, "svg .effect", "cx")
    assert "passed" in _gates(browser)["Activation gate"]
    assert "passed" in _gates(browser)["Decision"]
    assert browser.complaints() == []


def test_a_verdict_that_was_not_recomputed_says_so_beside_itself(browser: Browser, server: Served) -> None:
    """R-212, R-215"""
    reporter = Reporter(server, scenarios.spec(decision_rule=None))
    reporter.train()
    reporter.finish(150)
    browser.open(reporter.page)
    assert "How far it was checked: reported; not recomputed." in browser.text(".outcome.supported")


def test_an_interval_that_reaches_over_the_margin_is_drawn_so(browser: Browser, server: Served) -> None:
    reporter = Reporter(server)
    reporter.train()
    reporter.finish(60)
    browser.open(reporter.page)
    assert browser.text(".outcome.withheld .verdict") == "Inconclusive"
    assert "it settles nothing" in browser.text(".criterion")
    assert _x(browser, "svg .reach", "x1") < _x(browser, "svg .margin", "x1") < _x(browser, "svg .reach", "x2")


def test_a_withheld_verdict_says_why(browser: Browser, server: Served) -> None:
    """R-210: the reported verdict stands beside the recorded one."""
    reporter = Reporter(server)
    reporter.update(scenarios.calibration(reward=0.0))
    reporter.finish(150)
    browser.open(reporter.page)
    outcome = browser.text(".outcome.withheld")
    assert "withholds the reported verdict" in outcome
    assert browser.text(".outcome .verdict") == "Inconclusive"
    assert browser.text(".outcome .reported .verdict") == "Supported"
    assert "activation_gate is failed" in outcome
    gate = _gates(browser)["Activation gate"]
    assert "failed" in gate and "R-123" in gate and "batch_mean_reward" in gate
    assert browser.complaints() == []


def test_a_record_that_no_longer_holds_is_said_to_be_so(browser: Browser, server: Served) -> None:
    """R-16C, R-214: tampering shows at once, and the record stays until somebody asks."""
    reporter = Reporter(server)
    reporter.train()
    reporter.finish(199)
    blob = reporter.blob(scenarios.observations(199))
    intact = blob.read_bytes()
    browser.open(reporter.page)
    assert browser.all("[role=alert]") == []
    blob.write_bytes(intact.replace(b'"value": 0', b'"value": 1', 1))
    browser.open(reporter.page)
    assert "no longer follows from what the Exchange holds" in browser.text("[role=alert]")
    assert f"rx judge {reporter.id}" in browser.text("[role=alert]")
    assert "other bytes in the place of" in browser.text(".lost")
    assert browser.all(".outcome.supported") == []
    blob.write_bytes(intact)


def test_a_running_page_follows_the_run_and_keeps_what_is_open(browser: Browser, server: Served) -> None:
    reporter = Reporter(server)
    session = reporter.session()
    reporter.train(3)
    browser.open(reporter.page)
    assert browser.text(".outcome .verdict") == "Running"
    assert "4 updates so far" in browser.text(".outcome")
    browser.run("document.querySelector('#metrics details').open = true; window.sameDocument = true")
    reporter.update(scenarios.progress(4, 0.75))
    _wait(lambda: "5 updates so far" in browser.text(".outcome"))
    assert browser.run("return document.querySelector('#metrics details').open") is True
    reporter.finish(150)
    reporter.end_session(session, "The command ended.")
    _wait(lambda: browser.text(".outcome .verdict") == "Supported")
    assert browser.run("return window.sameDocument") is True
    assert browser.complaints() == []


def test_a_dead_run_shows_its_partial_results(browser: Browser, server: Served) -> None:
    """R-067."""
    reporter = Reporter(server)
    session = reporter.session()
    reporter.train(2)
    reporter.update(
        {"status": "running", "metrics": {"arms": {"untrained": {"accuracy": 0.125}}}, "completed_arms": ["untrained"]}
    )
    reporter.end_session(session, "The process was killed by signal 9.", -9)
    browser.open(reporter.page)
    assert browser.text(".outcome .verdict") == "Inconclusive"
    assert "killed by signal 9" in browser.text(".outcome")
    assert "no verdict" in browser.text(".outcome .reported").lower()
    assert "accuracy 0.125" in browser.text("#arms")


def test_revisions_of_a_metric_are_shown(browser: Browser, server: Served) -> None:
    """R-065."""
    reporter = Reporter(server)
    for value in (0.25, 0.5, 0.375):
        reporter.update({"status": "running", "metrics": {"reward": value}})
    browser.open(reporter.page)
    row = browser.one("#metrics tbody tr")
    assert "0.375" in row.text
    points = browser.one("polyline.curve").get_attribute("points")
    assert points is not None and len(points.split()) == 3
    browser.one("#metrics summary").click()
    assert [value.text for value in browser.all("#metrics details dd")] == ["0.5", "0.25"], "newest first"


def test_deviations_say_when_they_were_stated(browser: Browser, server: Served) -> None:
    """R-076."""
    reporter = Reporter(server)
    deviation = {"field": "steps", "original": "14", "effective": "12", "reason": "out of time"}
    reporter.finish(150, deviations=[deviation])
    browser.open(reporter.page)
    assert "unrecorded in update 1" in browser.text("#deviations")


def test_evidence_is_listed_with_downloads(browser: Browser, server: Served) -> None:
    """R-162, R-221, R-222."""
    reporter = Reporter(server)
    reporter.upload("a page.html", b"<script>alert(1)</script>", "report")
    assert reporter.upload(".env", b"A=1", "other") == 422
    reporter.train(1)
    browser.open(reporter.page)
    link = browser.one("#evidence .scroll a").get_attribute("href")
    assert link is not None
    download = get(link)
    assert download.content == b"<script>alert(1)</script>"
    assert download.headers["content-disposition"].startswith("attachment")
    assert download.headers["x-content-type-options"] == "nosniff"
    assert "1 refused" in browser.text("#refused")
    expected = browser.text("#completeness")
    assert "Predictions unknown" in expected
    assert "25 B" in browser.text("#evidence .scroll")


def test_every_update_leads_to_its_raw_bytes(browser: Browser, server: Served) -> None:
    """R-221."""
    reporter = Reporter(server)
    reporter.train(1)
    reporter.raw_update(b'{"status": nonsense')
    browser.open(reporter.page)
    assert [link.text for link in browser.all("#updates tbody td:first-child a")] == ["3", "2", "1"]
    assert "malformed" in browser.text("#updates")
    browser.follow("#updates tbody a")
    assert browser.text("h1") == "Update 3"
    assert '{"status": nonsense' in browser.text(".document")
    raw = browser.one(".masthead a[href^='/api']").get_attribute("href")
    assert raw is not None
    assert get(raw).content == b'{"status": nonsense'


@pytest.mark.parametrize("path", ["/", "/?offset=50", "/runs/{run}", "/runs/run_0000000000"])
def test_pages_load_nothing_from_elsewhere_and_cannot_change_anything(
    browser: Browser, server: Served, path: str
) -> None:
    """R-224."""
    reporter = Reporter(server)
    reporter.train(1)
    url = server.url + path.format(run=reporter.id)
    answer = get(url)
    assert answer.headers["content-security-policy"] == PAGE_POLICY
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    browser.open(url)
    assert browser.all("main :is(form, button, input), iframe, object") == []
    loaded = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    own = (f"{server.url}/static/", f"{server.url}/api/runs/{reporter.id}/events")
    assert all(name.startswith(own) for name in loaded)


def test_an_unknown_run_has_a_page_that_says_so(browser: Browser, server: Served) -> None:
    answer = get(f"{server.url}/runs/run_0000000000")
    assert answer.status_code == 404
    browser.open(f"{server.url}/runs/run_0000000000")
    assert "run_0000000000" in browser.text()


def test_the_json_twin_has_what_the_page_shows(server: Served) -> None:
    """R-223."""
    reporter = Reporter(server)
    reporter.train(2)
    reporter.finish(150)
    twin = get(f"{reporter.page}.json").json()
    assert twin["judgment"] == get(f"{server.url}/api/runs/{reporter.id}/judgment").json()
    record = get(f"{server.url}/api/runs/{reporter.id}").json()
    assert {key: twin[key] for key in record} == record
    assert json.dumps(twin).count('"supported"') >= 2


def test_the_list_leads_to_runs(browser: Browser, server: Served) -> None:
    finished, running, fresh = (Reporter(server, scenarios.spec(title=f"Listed {n}")) for n in range(3))
    finished.finish(150)
    running.session()
    running.train(1)
    browser.open(server.url)
    rows = {row.find_element("css selector", "a").text: row.text for row in browser.all("tbody tr")}
    assert "inconclusive, withheld" in rows["Listed 0"]
    assert "running" in rows["Listed 1"]
    assert "created" in rows["Listed 2"] and "none yet" in rows["Listed 2"]
    browser.follow(f'a[href="/runs/{fresh.id}"]')
    assert browser.text("h1") == "Listed 2"
    assert "Nothing has been posted yet" in browser.text()
    assert browser.complaints() == []


def _wait(condition: object, seconds: float = 15.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the page did not change in time"
        time.sleep(0.1)
