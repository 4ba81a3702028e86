"""The page of a run that goes on follows it, and leaves in peace what has not changed."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import Served, served
from tests.web.conftest import Browser, Reporter

SOON = 2.5
"""Seconds, in which a page that only looked by itself now and then would not have looked."""
_WITHOUT_EVENTS = "delete window.EventSource"


def wait(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the page did not change in time"
        time.sleep(0.05)


@pytest.fixture
def running(server: Served) -> Reporter:
    reporter = Reporter(server)
    reporter.session()
    reporter.train(2)
    return reporter


@pytest.fixture
def no_events(browser: Browser) -> Iterator[None]:
    """A browser, or a proxy on the way, that knows nothing of events."""
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WITHOUT_EVENTS})
    yield
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_what_happens_shows_at_once(browser: Browser, running: Reporter) -> None:
    browser.open(running.page)
    time.sleep(0.5)
    running.update(scenarios.progress(3, 0.75))
    wait(lambda: "4 updates so far" in browser.text("#outcome"), SOON)
    running.upload("log.txt", b"hello\n", "log")
    wait(lambda: "log.txt" in browser.text("#evidence"), SOON)
    assert browser.complaints() == []


@pytest.mark.usefixtures("no_events")
def test_without_events_the_page_looks_by_itself(browser: Browser, running: Reporter) -> None:
    browser.open(running.page)
    assert browser.run("return window.EventSource === undefined")
    running.update(scenarios.progress(3, 0.75))
    wait(lambda: "4 updates so far" in browser.text("#outcome"))
    running.finish(150)
    wait(lambda: browser.text("#outcome .verdict") == "Supported")


def test_what_has_not_changed_is_left_alone(browser: Browser, running: Reporter) -> None:
    """The focus, the selection and the place on the page stay where the reader put them."""
    browser.open(running.page)
    browser.run("document.querySelector('#gates').marked = true; document.querySelector('#updates a').focus()")
    browser.run("window.scrollTo(0, 600)")
    browser.run("getSelection().selectAllChildren(document.querySelector('#deviations p'))")
    running.update(scenarios.progress(3, 0.75))
    wait(lambda: "4 updates so far" in browser.text("#outcome"))
    assert browser.run("return document.querySelector('#gates').marked") is True
    assert browser.run("return document.activeElement.getAttribute('href')").endswith(f"{running.id}/updates/3")
    assert browser.run("return getSelection().toString()") == browser.text("#deviations p")
    assert abs(browser.run("return window.scrollY") - 600) < 5


def test_the_end_is_said_to_those_who_listen_and_then_nothing_is_asked_any_more(
    browser: Browser, running: Reporter
) -> None:
    browser.open(running.page)
    running.finish(150)
    wait(lambda: browser.text("#outcome .verdict") == "Supported")
    wait(lambda: browser.run("return document.querySelector('#live-state').textContent") == "Supported")
    asked = "return performance.getEntriesByType('resource').filter(e => e.name.includes('/runs/')).length"
    time.sleep(2)
    before = browser.run(asked)
    time.sleep(5)
    assert browser.run(asked) == before


def test_a_page_that_nobody_looks_at_asks_for_nothing(browser: Browser, running: Reporter) -> None:
    browser.open(running.page)
    browser.run(
        "Object.defineProperty(document, 'hidden', {get: () => window.away ?? true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    running.update(scenarios.progress(3, 0.75))
    time.sleep(SOON)
    assert "3 updates so far" in browser.text("#outcome")
    browser.run("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    wait(lambda: "4 updates so far" in browser.text("#outcome"), SOON)


def test_whoever_has_signed_in_follows_a_run_where_nobody_else_may_look(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RX_REQUIRE_LOGIN", "1")
    with served(tmp_path / "data") as closed:
        reporter = Reporter(closed)
        reporter.session()
        browser.open(reporter.page)
        assert browser.text("h1") == "Sign in"
        browser.one("#token").send_keys(closed.admin_token)
        browser.follow(".sign-in button")
        assert browser.run("return location.href") == reporter.page
        reporter.train(1)
        wait(lambda: "2 updates so far" in browser.text("#outcome"), SOON)
        browser.follow(".masthead button")
