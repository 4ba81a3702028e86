"""The pages beside a run's own: ideas, spec versions, the queue, two runs side by side, signing in, the log."""

from typing import Any

import httpx
import pytest

from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import NO_TLS, NewRun, Served, get, post
from tests.web.conftest import Browser, Reporter
from tests.web.test_hostile_content import ATTACK


def told(server: Served, path: str, document: dict[str, Any], **params: str) -> dict[str, Any]:
    answer = post(f"{server.url}{path}", server.admin_token, scenarios.encode(document), **params)
    assert answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


def version(server: Served, title: str, **params: str) -> str:
    return str(told(server, "/api/specs", scenarios.spec(title=title), legacy="true", **params)["id"])


def finished(server: Served, spec_id: str, wins: int, **launch: str) -> str:
    created = told(server, "/api/runs", {"spec_id": spec_id, **launch})
    reporter = Reporter(server, run=NewRun(created["id"], created["token"]))
    reporter.train(1)
    reporter.finish(wins)
    return reporter.id


def sign_in(browser: Browser, server: Served, token: str, path: str = "/") -> None:
    browser.open(f"{server.url}/sign-in?next={path}")
    browser.one("#token").send_keys(token)
    browser.follow(".sign-in button")


def test_an_idea_leads_to_its_versions_with_the_words_of_their_day(browser: Browser, server: Served) -> None:
    """R-001, R-003, R-220."""
    idea = told(server, "/api/ideas", {"title": "Centre the score", "summary": "Less drift, perhaps."})["id"]
    first = version(server, "Centring, first version", idea=idea)
    told(server, f"/api/ideas/{idea}/snapshots", {"title": "Centre the score, again", "triage": "Worth two hours."})
    version(server, "Centring, second version", idea=idea, parent=first)
    browser.open(f"{server.url}/ideas")
    browser.follow(f'a[href="/ideas/{idea}"]')
    assert browser.text("h1") == "Centre the score, again"
    assert "Worth two hours." in browser.text()
    browser.follow(f'a[href="/specs/{first}"]')
    assert browser.text("h1") == "Centring, first version"
    assert "Less drift, perhaps." in browser.text(".claim")
    assert "Worth two hours." not in browser.text(), "the triage came after this version was saved"
    assert browser.complaints() == []


def test_a_version_says_what_is_wrong_what_it_can_tell_and_what_changed(browser: Browser, server: Served) -> None:
    """R-037, R-220."""
    first = version(server, "Margins, first version")
    second = version(server, "Margins, second version", parent=first)
    browser.open(f"{server.url}/specs/{second}")
    assert "half-width within the margin from 119 items on" in browser.text()
    assert "Margins, first version" in browser.text("table tbody"), "what the title was before"
    twin = get(f"{server.url}/specs/{second}.json").json()
    assert twin["compared_with"] == first
    assert [change["path"] for change in twin["changes"]] == ["title"]
    assert twin["power"] == {
        k: v for k, v in get(f"{server.url}/api/specs/{second}/power").json().items() if k in twin["power"]
    }
    for finding in twin["findings"]:
        assert finding["rule"] in browser.text()
    browser.open(f"{server.url}/specs/{first}?against={second}")
    assert "Margins, second version" in browser.text()


def test_two_runs_stand_side_by_side(browser: Browser, server: Served) -> None:
    """R-006: agreement is shown, rows are never merged."""
    spec_id = version(server, "Run twice")
    first = finished(server, spec_id, 150)
    again = finished(server, spec_id, 140, launch_mode="redo", redo_of=first)
    browser.open(f"{server.url}/specs/{spec_id}")
    browser.follow(f'a[href="/runs/{again}/against/{first}"]')
    twin = get(f"{server.url}/runs/{again}/against/{first}.json").json()
    assert twin["sentence"] in browser.text()
    assert first in browser.text() and again in browser.text()
    assert browser.complaints() == []


def test_the_queue_says_why_each_run_waits(browser: Browser, server: Served) -> None:
    spec_id = version(server, "Let it wait")
    created = told(server, "/api/runs", {"spec_id": spec_id, "queue": True})
    browser.open(f"{server.url}/queue")
    assert "Let it wait" in browser.text()
    waits = [row["waits"] for row in get(f"{server.url}/queue.json").json()["queue"] if row["run"] == created["id"]]
    assert waits[0] in browser.text()


def test_a_browser_signs_in_reads_the_log_and_signs_out(browser: Browser, server: Served) -> None:
    browser.open(f"{server.url}/audit")
    assert browser.text("h1") == "Sign in", "the log is for administrators"
    sign_in(browser, server, "rxa_wrong", "/audit")
    assert "does not open this Exchange" in browser.text()
    sign_in(browser, server, server.admin_token, "/audit")
    assert browser.text("h1") == "Who did what"
    assert "admin-token" not in browser.driver.page_source and server.admin_token not in browser.driver.page_source
    browser.follow(".masthead button")
    assert browser.one(".masthead a[href='/sign-in']").text == "Sign in"
    browser.open(f"{server.url}/audit")
    assert browser.text("h1") == "Sign in"


def test_a_form_from_elsewhere_signs_nobody_in_or_out(server: Served) -> None:
    answer = httpx.post(
        f"{server.url}/sign-in",
        data={"token": server.admin_token},
        headers={"Origin": "https://elsewhere.example"},
        verify=NO_TLS,
    )
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/ideas/idea_0000000000", "/specs/exp_0000000000", "/runs/run_0000000000/against/run_1"]
)
def test_what_is_not_there_has_a_page_that_says_so(server: Served, path: str) -> None:
    answer = get(server.url + path)
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text


def test_nothing_that_people_write_becomes_markup(browser: Browser, server: Served) -> None:
    """R-240."""
    text = {"title": ATTACK, "summary": ATTACK, "triage": ATTACK, "source_url": "https://example.org/?<script>"}
    idea = told(server, "/api/ideas", text)["id"]
    first = version(server, ATTACK + "1", idea=idea)
    second = version(server, ATTACK + "2", idea=idea, parent=first)
    told(server, "/api/runs", {"spec_id": second, "queue": True})
    for path in ("/ideas", f"/ideas/{idea}", f"/specs/{second}", "/queue"):
        browser.open(server.url + path)
        assert browser.run("return window.hacked") is None, path
        assert browser.all("img, b.hacked, main script, main style") == [], path
        assert browser.complaints() == [], path


def test_a_narrow_screen_scrolls_no_page_sideways(browser: Browser, server: Served) -> None:
    idea = told(server, "/api/ideas", {"title": "Narrow " * 20, "summary": "word" * 60})["id"]
    spec_id = version(server, "Narrow " * 20, idea=idea)
    before = browser.driver.get_window_size()
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        for path in ("/", "/ideas", f"/ideas/{idea}", f"/specs/{spec_id}", "/queue", "/sign-in"):
            browser.open(server.url + path)
            assert browser.run("return document.documentElement.scrollWidth") <= 360, path
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        assert browser.driver.get_window_size() == before
