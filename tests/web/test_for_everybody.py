"""The pages can be read by everybody: on a small screen, with a keyboard, by a screen reader, in the dark."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.research_exchange.rules.honest_run import honest_run
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import Served, get, post
from tests.web.conftest import Browser, Reporter
from tests.web.replaying import replay
from tests.web.test_hostile_content import report_attacks

ROOT = Path(__file__).parents[2]
SPECS = sorted([*ROOT.glob("experiments/*/*spec.json"), *ROOT.parent.glob("shared/seeds/*.spec.json")])
"""Those of the repository, and beside it, where they are, the first ones ever written."""

_CONTRAST = """
const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const rgba = (colour) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
};
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = rgba(getComputedStyle(node).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return rgba('white');
};
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest('svg, noscript')) continue;
  const [ink, paper] = [luminance(rgba(getComputedStyle(node).color)), luminance(behind(node))];
  const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  if (ratio < 4.5) found.push(`${node.className || node.tagName}: ${ratio.toFixed(2)}`);
}
return [...new Set(found)];
"""

_OUTLINE = """
return {
  ids: [...document.querySelectorAll('[id]')].map((node) => node.id),
  levels: [...document.querySelectorAll('h1, h2, h3')].map((node) => Number(node.tagName[1])),
  dangling: [...document.querySelectorAll('a[href^="#"], [aria-labelledby]')]
    .map((node) => node.getAttribute('aria-labelledby') ?? node.getAttribute('href').slice(1))
    .filter((id) => id && !document.getElementById(decodeURIComponent(id))),
  nameless: [...document.querySelectorAll('a, button, svg[role=img], input:not([type=hidden], [hidden])')]
    .filter((node) => !(node.textContent.trim() || node.getAttribute('aria-label') || node.labels?.length))
    .map((node) => node.outerHTML),
  scrolls: document.documentElement.scrollWidth - document.documentElement.clientWidth,
};
"""


@pytest.fixture(scope="module")
def addresses(server: Served) -> dict[str, str]:
    """One page of every kind, on the largest contents at hand."""
    idea = _told(server, "/api/ideas", {"title": "An idea " * 12, "summary": "word" * 60, "triage": "Worth it."})
    spec = post(
        f"{server.url}/api/specs", server.admin_token, scenarios.encode(scenarios.spec(title="x" * 200)), idea=idea
    ).json()["id"]
    _told(server, "/api/runs", {"spec_id": spec, "queue": True})
    complete, hostile, going_on = replay(server, honest_run()), report_attacks(server), Reporter(server)
    going_on.session()
    going_on.train(30)
    again = Reporter(server)
    again.finish(150)
    pages = {
        "runs": "/",
        "ideas": "/ideas",
        "idea": f"/ideas/{idea}",
        "version": f"/specs/{spec}",
        "queue": "/queue",
        "sign-in": "/sign-in",
        "complete run": f"/runs/{complete.id}",
        "run that goes on": f"/runs/{going_on.id}",
        "hostile run": f"/runs/{hostile.id}",
        "updates": f"/runs/{going_on.id}/updates",
        "update": f"/runs/{complete.id}/updates/2",
        "spec of a run": f"/runs/{complete.id}/spec",
        "brief": f"/runs/{complete.id}/brief",
        "comparison": f"/runs/{again.id}/against/{going_on.id}",
        "nothing": "/runs/run_0000000000",
    }
    return {name: server.url + path for name, path in pages.items()}


def _told(server: Served, path: str, document: dict[str, Any]) -> str:
    return str(post(f"{server.url}{path}", server.admin_token, scenarios.encode(document)).json()["id"])


@contextmanager
def emulated(browser: Browser, width: int, scheme: str = "light") -> Iterator[None]:
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_no_page_scrolls_sideways_on_a_small_screen(browser: Browser, addresses: dict[str, str]) -> None:
    with emulated(browser, 360):
        wide = {}
        for name, address in addresses.items():
            browser.open(address)
            if beyond := browser.run(_OUTLINE)["scrolls"]:
                wide[name] = beyond
    assert wide == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(browser: Browser, addresses: dict[str, str], scheme: str) -> None:
    """WCAG 2.2, 1.4.3: a contrast of 4.5 to 1."""
    with emulated(browser, 1200, scheme):
        pale = {}
        for name, address in addresses.items():
            browser.open(address)
            if found := browser.run(_CONTRAST):
                pale[name] = found
    assert pale == {}


def test_a_page_has_an_outline_and_names_for_what_it_shows(browser: Browser, addresses: dict[str, str]) -> None:
    for name, address in addresses.items():
        browser.open(address)
        outline = browser.run(_OUTLINE)
        assert len(outline["ids"]) == len(set(outline["ids"])), name
        assert outline["levels"].count(1) == 1, name
        levels = outline["levels"]
        assert all(after <= before + 1 for before, after in pairwise(levels)), name
        assert outline["dangling"] == [], name
        assert outline["nameless"] == [], name
        assert browser.run("return document.documentElement.lang") == "en"
        if name != "nothing":
            assert browser.complaints() == [], name
        browser.complaints()


def test_a_keyboard_reaches_everything_and_sees_where_it_is(browser: Browser, addresses: dict[str, str]) -> None:
    browser.open(addresses["complete run"])
    reachable = browser.run(
        "return [...document.querySelectorAll('a[href], summary, button')].filter((n) => n.checkVisibility()).length"
    )
    body, reached = browser.one("body"), 0
    for _ in range(reachable + 20):
        body.send_keys(Keys.TAB) if reached == 0 else browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        focus = browser.run(
            "const n = document.activeElement; if (n === document.body) return null;"
            "const seen = !n.seen; n.seen = true;"
            "return [seen, n.matches('a[href], summary, button'), getComputedStyle(n).outlineStyle]"
        )
        if focus is None:
            break
        seen_first, is_control, outline = focus
        if not seen_first:
            break
        reached += bool(is_control)
        assert outline != "none", browser.run("return document.activeElement.outerHTML")
    assert reached == reachable


def test_the_content_is_one_step_away(browser: Browser, addresses: dict[str, str]) -> None:
    browser.open(addresses["runs"])
    browser.one("body").send_keys(Keys.TAB)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.run("return location.hash") == "#content"


@pytest.mark.parametrize("path", SPECS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_spec_that_somebody_wrote_has_its_pages(browser: Browser, server: Served, path: Path) -> None:
    """With nothing posted yet, every gate that applies, or may, is shown as open."""
    raw = path.read_bytes()
    spec_id = post(f"{server.url}/api/specs", server.admin_token, raw, legacy="true").json()["id"]
    run = post(f"{server.url}/api/runs", server.admin_token, scenarios.encode({"spec_id": spec_id})).json()["id"]
    for address in (f"/specs/{spec_id}", f"/runs/{run}", f"/runs/{run}/spec", f"/runs/{run}/brief"):
        browser.open(server.url + address)
        assert browser.complaints() == []
        assert browser.all("h1") != []
    assert get(f"{server.url}/runs/{run}.json").status_code == 200
    browser.open(f"{server.url}/runs/{run}")
    gates = browser.text("#gates tbody")
    assert "unknown" in gates if "experiment_features" not in json.loads(raw) else "unverified" in gates
    assert "passed" not in gates
