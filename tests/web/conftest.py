import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.wait import WebDriverWait

from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import NewRun, Served, new_run, post, served

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@dataclass(frozen=True)
class Browser:
    """A real Chromium, and what its console said."""

    driver: Any

    def open(self, url: str) -> None:
        self.driver.get(url)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[WebElement]:
        found: list[WebElement] = self.driver.find_elements("css selector", selector)
        return found

    def follow(self, link: str | WebElement) -> None:
        """Click what leads to another page, and wait until that is there; a click alone may return before."""
        before = self.one("html")
        (self.one(link) if isinstance(link, str) else link).click()
        WebDriverWait(self.driver, 20).until(staleness_of(before))
        WebDriverWait(self.driver, 20).until(lambda _: self.run("return document.readyState") == "complete")

    def text(self, selector: str = "main") -> str:
        """What a reader sees, white space made plain; a page that follows a run may change an element meanwhile."""
        for _ in range(5):
            with contextlib.suppress(StaleElementReferenceException):
                return " ".join(self.one(selector).text.split())
        raise AssertionError(f"{selector} does not hold still.")

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not (Path(CHROMIUM).exists() and Path(DRIVER).exists()):
        missing = CHROMIUM if shutil.which("chromedriver") else f"{CHROMIUM} and {DRIVER}"
        pytest.skip(f"No browser here: {missing} not found; apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield Browser(driver)
    driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser, with what its console said in other tests forgotten."""
    chromium.complaints()
    return chromium


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("exchange") / "data") as running:
        yield running


@dataclass
class Reporter:
    """The runner of one run on the served Exchange."""

    server: Served
    spec: dict[str, Any] = field(default_factory=scenarios.spec)
    run: NewRun | None = None
    """A run that was started before; without one, a new run of `spec`."""

    def __post_init__(self) -> None:
        run = self.run or new_run(self.server, scenarios.encode(self.spec))
        self.id, self._token = run.id, run.token
        self.page = f"{self.server.url}/runs/{run.id}"
        self._path = f"{self.server.url}/api/runs/{run.id}"

    def update(self, document: dict[str, Any]) -> None:
        answer = post(f"{self._path}/updates", self._token, scenarios.encode(document))
        assert answer.is_success, answer.text

    def raw_update(self, raw: bytes) -> None:
        post(f"{self._path}/updates", self._token, raw)

    def upload(self, name: str, content: bytes, kind: str = "metrics") -> int:
        return post(f"{self._path}/evidence", self._token, content, name=name, kind=kind).status_code

    def session(self) -> str:
        session: str = post(f"{self._path}/sessions", self._token, b"").json()["session"]
        return session

    def end_session(self, session: str, reason: str, exit_code: int = 0) -> None:
        body = scenarios.encode({"exit_code": exit_code, "reason": reason})
        assert post(f"{self._path}/sessions/{session}/end", self._token, body).is_success

    def train(self, steps: int = 6) -> None:
        self.update(scenarios.calibration())
        for step in range(1, steps + 1):
            self.update(scenarios.progress(step, step / 10))

    def finish(self, wins: int = 150, **changes: Any) -> None:
        self.upload("observations.jsonl", scenarios.observations(wins))
        self.update(scenarios.final(wins, **changes))

    def blob(self, content: bytes) -> Path:
        """Where the server keeps these bytes."""
        from hashlib import sha256

        digest = sha256(content).hexdigest()
        return self.server.data / "blobs" / digest[:2] / digest[2:]
