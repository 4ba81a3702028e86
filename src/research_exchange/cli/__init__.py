"""The `rx` command: from a spec to a verdict, with an Exchange and without one.

`app` is the root and says how failures are told, `exchange` holds the commands that talk to an Exchange, `specs` those
that need a spec alone, `judging` those that judge a run; `console` is how they all print; `spec_file`, `run_folder` and
`intake` make a spec and a run out of files.
"""

from research_exchange.cli.app import main

__all__ = ["main"]
