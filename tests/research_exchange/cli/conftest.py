"""`rx` in this process: quick enough to try every mistake."""

import signal
import sys
from collections.abc import Iterator

import pytest

from research_exchange.cli import main
from tests.research_exchange.cli.commands import Answer, Rx


@pytest.fixture
def rx(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Rx]:
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def _rx(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["rx", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Answer(int(ended.value.code or 0), said.out, said.err)

    yield _rx
    signal.signal(signal.SIGTERM, handler)
