"""The `spindle` command in this process: what a person sees, without a second for every start of Python."""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

import pytest

from spindle.cli import main


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The one line in which a command that failed says why."""
        assert (self.returncode, self.stdout) == (1, ""), self
        (line,) = self.stderr.strip().splitlines()
        assert line.startswith("spindle: ")
        return line


def spindle(*arguments: str, **environment: str) -> Finished:
    """Run the command until it exits, as it would in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPINDLE_")}
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, kept | environment, clear=True),
        mock.patch.object(sys, "argv", ["spindle", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    return Finished(int(end.value.code or 0), out.getvalue(), err.getvalue())
