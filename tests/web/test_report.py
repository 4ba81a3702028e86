"""A report in a real browser: its plots are there, it loads nothing, and what a run says stays text."""

import json
from pathlib import Path

from research_exchange.cli.bundle_file import read_bundle
from research_exchange.reports import html, report_of
from tests.research_exchange.reports.cases import FILES, bundled, write
from tests.research_exchange.server.serving import Served, get
from tests.web.conftest import Browser
from tests.web.test_hostile_content import ATTACK, report_attacks


def opened(browser: Browser, bundle: Path) -> Path:
    found = read_bundle(bundle)
    made = report_of(found.record, found.document, found.contents)
    page = bundle.with_suffix(".html")
    page.write_bytes(html(made))
    for picture in made.pictures:
        bundle.with_name(picture.name).write_bytes(picture.figure.file())
    browser.open(page.as_uri())
    return page


def shown(browser: Browser) -> list[list[float]]:
    """Width and height of every figure, and how many of its lines have a colour of their own."""
    script = """
      return JSON.stringify([...document.querySelectorAll('svg')].map(svg => {
        const lines = [...svg.querySelectorAll('polyline')].map(line => getComputedStyle(line).stroke);
        return [svg.clientWidth, svg.clientHeight, new Set(lines.filter(colour => colour.startsWith('rgb'))).size];
      }))"""
    found: list[list[float]] = json.loads(browser.run(script))
    return found


def test_the_plots_are_shown_and_nothing_is_loaded(browser: Browser, tmp_path: Path) -> None:
    opened(browser, write(bundled(*FILES), tmp_path / "run.zip"))
    interval, *curves = shown(browser)
    assert interval[0] > 400
    assert len(curves) == 5
    for width, height, colours in curves:
        assert (width > 400, height > 200, colours) == (True, True, 2)
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert "Supported" in browser.text("#outcome")
    assert browser.complaints() == []


def test_a_figure_in_a_file_of_its_own_has_its_colours(browser: Browser, tmp_path: Path) -> None:
    opened(browser, write(bundled(*FILES), tmp_path / "run.zip"))
    browser.open((tmp_path / "curve-01-accuracy.svg").as_uri())
    colours = "return new Set([...document.querySelectorAll('polyline')].map(e => getComputedStyle(e).stroke)).size"
    assert browser.run(colours) == 2
    assert browser.run("return getComputedStyle(document.querySelector('.ground')).fill") != "rgb(0, 0, 0)"
    assert browser.complaints() == []


def test_nothing_that_a_runner_writes_becomes_markup(browser: Browser, server: Served, tmp_path: Path) -> None:
    reporter = report_attacks(server)
    bundle = tmp_path / "run.zip"
    bundle.write_bytes(get(f"{server.url}/api/runs/{reporter.id}/bundle").content)
    page = opened(browser, bundle)
    assert browser.run("return window.hacked") is None
    assert browser.all("img, script, b.hacked, main style") == []
    assert browser.complaints() == []
    assert " ".join(ATTACK.split()) in browser.text("body")
    assert page.read_text().count("window.hacked=1") >= 15
