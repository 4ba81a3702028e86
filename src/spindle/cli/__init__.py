"""The `spindle` command: serve, and look after models.

`app` is the root, `serve` and `models` hold a command each, and `console` how things are said.
"""

from spindle.cli.app import main

__all__ = ["main"]
